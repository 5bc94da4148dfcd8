// Commit subjects: `area: verb what`, checked by the hook .githooks/commit-msg and by `npm run check -- --commits [range]`.
import { spawnSync } from 'node:child_process'
import { readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { verbs } from './commit-verbs.ts'

const SUBJECT_CHARACTERS_MAX = 72

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
  else if (!verbs.has(verb))
    problems.push(
      `"${verb}" is no verb of the list: say in the imperative what the commit does, or add the verb to scripts/commit-verbs.ts`,
    )
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

/** The rule holds from the commit on that brought this file: earlier subjects stay as they are. */
const RULE = 'scripts/commit-verbs.ts'

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
