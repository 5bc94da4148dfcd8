// Commit subjects: `area: verb what`, checked by the hook .githooks/commit-msg and by `npm run check -- --commits [range]`.
import { spawnSync } from 'node:child_process'
import { readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'

const SUBJECT_CHARACTERS_MAX = 72

/** A subject is a command to the code: its first word is one of these. Add a verb here when a commit needs it. */
const VERBS = new Set(
  `accept act adapt add admit adopt align allow answer apply approve ask assert authenticate authorize await batch begin bind bound break
  bring build bump cache call cancel carry change charge check choose cite claim clean clear close collect combine commit compare
  complete compress compute conclude confirm connect convert copy correct count cover create cut deal decide declare decline decode
  dedupe default defer define delay delegate delete deliver demand deny deprecate derive describe detect disable disconnect document
  download drain drop echo embed emit enable encode encrypt end enforce ensure erase escape estimate evict examine exclude execute
  exempt exit expect expire explain export expose extend extract fail fence fetch fill filter find finish fit fix flush fold follow
  forbid forget format forward free freeze gather generate get give go grant group guard halt handle hash heal hide hint hold honor
  ignore implement import improve include increase index infer inject inline insert inspect install invert invoke isolate issue join
  judge keep label lead leave let lift limit link list listen load localize locate lock log look loosen lower make map mark match
  measure mend merge migrate mirror model move name narrow negotiate normalize note notice notify number observe offer omit open
  order outline own pack page parse pass patch pause pay pick pin place plan plant play poll port postpone prefer prepare preserve
  prevent print probe process promote prompt propagate protect prove provide prune publish pull push put query queue quote raise
  rank rate reach read rebuild recheck recognize reconcile reconnect record recover redact redeliver redirect reduce refactor refer
  refresh refuse regenerate register reject relate relax release remember remove rename render reopen reorder repair repeat replace
  replay reply report request require rerun reserve reset resolve respect respond rest restart restore restrict resume retire retry
  return reuse reveal review revoke rework rewrite root rotate round route run sample save say scan schedule seal search see select
  send separate serve set settle share shorten show shut sign simplify simulate skip sleep slice snapshot snooze sort spawn speak
  specify speed spell spend split spread stage start state stop store stream strengthen strip submit subscribe substitute summarize
  supply support suppress suspend swap switch take teach tell terminate test throttle throw tidy tighten time tolerate trace track
  transfer translate trim trust try tune turn type unblock undo unify uninstall unlink unlock unpack update upgrade upload use
  validate vary verify vote wait wake walk warn watch weigh widen withdraw withhold word work wrap write`.split(/\s+/),
)

/** Git writes these itself, and `merge:` is our own. */
const EXEMPT = /^(?:merge: |Merge |Revert "|(?:fixup|squash|amend)! )/

/** The rules that a subject breaks, each with what to do. */
export function subjectProblems(subject: string): string[] {
  if (EXEMPT.test(subject)) return []
  const problems: string[] = []
  if (subject.length > SUBJECT_CHARACTERS_MAX)
    problems.push(`it has ${subject.length} characters, at most ${SUBJECT_CHARACTERS_MAX} fit: move the rest into the body`)
  if (subject.includes(';')) problems.push('it has a semicolon: make two commits, or move one half into the body')
  const verb = /^[a-z][\w/-]*(?:, [a-z][\w/-]*)*: (\S+)/.exec(subject)?.[1]
  if (verb === undefined) problems.push('it does not begin with an area: write `area: verb what`, such as `kernel: refuse unknown fields`')
  else if (!VERBS.has(verb))
    problems.push(`"${verb}" is no verb of the list: say in the imperative what the commit does, or add the verb to scripts/commits.ts`)
  return problems
}

/** The subject as git takes it from the file of a message. */
export const subjectOf = (message: string): string =>
  message
    .split(/^# -+ >8 -+$/m)[0]!
    .split('\n')
    .find((line) => line.trim() !== '' && !line.startsWith('#'))
    ?.trim() ?? ''

export type Verdict = { readonly code: 0 | 1 | 2; readonly lines: readonly string[] }
type Git = (...args: string[]) => string | null

const gitIn =
  (folder: string): Git =>
  (...args) => {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_')))
    const { status, stdout } = spawnSync('git', args, { cwd: folder, env, encoding: 'utf8', maxBuffer: 2 ** 28 })
    return status === 0 ? stdout.trim() : null
  }

/** The rule holds from the commit on that brought this file: older subjects stay as they are. */
const RULE = 'scripts/commits.ts'

/** Checks the subjects of a range, or of all commits since the rule exists. A folder without history passes and says so. */
export function checkCommits(folder: string, range?: string): Verdict {
  const git = gitIn(folder)
  const top = git('rev-parse', '--show-toplevel')
  if (top === null || realpathSync(top) !== realpathSync(folder)) return pass('this folder has no git history of its own')
  const isShallow = git('rev-parse', '--is-shallow-repository') === 'true'
  if (isShallow && range === undefined) return pass('this is a shallow clone, its history is cut off')
  const first = git('log', '--diff-filter=A', '--format=%H', '--', RULE)?.split('\n').at(-1)
  if (range === undefined && !first) return pass(`no commit has brought ${RULE} yet`)
  const chosen = range ?? `${first}..HEAD`
  const log = chosen.startsWith('-') ? null : git('log', '--format=%h %s', chosen, '--')
  if (log === null)
    return isShallow
      ? pass(`this is a shallow clone without ${chosen}`)
      : { code: 2, lines: [`${chosen} is no range of commits, such as main..HEAD`] }
  const commits = log.split('\n').filter(Boolean)
  const lines = commits.flatMap((commit) => {
    const [hash, subject] = [commit.slice(0, commit.indexOf(' ')), commit.slice(commit.indexOf(' ') + 1)]
    return subjectProblems(subject).map((problem) => `${hash} "${subject}": ${problem}`)
  })
  return lines.length > 0 ? { code: 1, lines } : { code: 0, lines: [`the subjects of ${commits.length} commits in ${chosen} are in order`] }
}

const pass = (why: string): Verdict => ({ code: 0, lines: [`${why}: no commit subject was checked`] })

/** The hook: the file that git wrote the message to. */
if (import.meta.main) {
  const subject = subjectOf(readFileSync(process.argv[2] ?? join('.git', 'COMMIT_EDITMSG'), 'utf8'))
  const problems = subject === '' ? [] : subjectProblems(subject)
  for (const problem of problems) console.error(`commit subject "${subject}": ${problem}`)
  process.exitCode = problems.length === 0 ? 0 : 1
}
