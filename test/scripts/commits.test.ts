// Commit subjects: the rules, the hook, and the check of a range with and without history.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { checkCommits, subjectOf, subjectProblems } from '../../scripts/commits.ts'
import { root, temporary } from '../support/as-processes/cli.ts'

const subjects: readonly [subject: string, problem: RegExp | null][] = [
  ['kernel: refuse unknown fields', null],
  ['kernel, workers: rest after an overdue turn', null],
  ['merge: bring in the page; it replaces the old one, which nobody has used for a year or even longer', null],
  ['Merge branch "main"', null],
  ['Revert "kernel: refuse unknown fields"', null],
  ['fixup! kernel: refuse unknown fields', null],
  [`kernel: refuse ${'x'.repeat(57)}`, null],
  [`kernel: refuse ${'x'.repeat(58)}`, /73 characters, at most 72/],
  ['kernel: refuse a; keep b', /semicolon/],
  ['refuse unknown fields', /does not begin with an area/],
  ['Kernel: refuse unknown fields', /does not begin with an area/],
  ['kernel:refuse unknown fields', /does not begin with an area/],
  ['kernel: refused unknown fields', /"refused" is no verb/],
  ['kernel: what is refused', /"what" is no verb/],
  ['kernel: Refuse unknown fields', /"Refuse" is no verb/],
]
for (const [subject, problem] of subjects)
  test(`"${subject}" is ${problem === null ? 'in order' : 'refused'}`, () => {
    const problems = subjectProblems(subject)
    assert.equal(problems.length, problem === null ? 0 : 1, problems.join('\n'))
    if (problem) assert.match(problems[0]!, problem)
  })

test('the subject is the first line that git keeps of a message', () => {
  assert.equal(subjectOf('\n# a comment\nkernel: add a\n\nwhy\n'), 'kernel: add a')
  assert.equal(subjectOf('# only comments\n'), '')
  assert.equal(subjectOf('\n# ------------------------ >8 ------------------------\ndiff --git a b\n'), '')
})

/** The sources also come as an archive, to machines without git. */
const skip = spawnSync('git', ['--version']).status === 0 ? false : 'git is not installed'

type Repository = { readonly folder: string; commit(subject: string, hooks?: string): string; git(...args: string[]): string }

/** A repository of its own, with no settings but its own: neither a signature nor a hook of the user is asked for. */
function repository(t: TestContext): Repository {
  const folder = temporary('commits')
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const env = {
    PATH: process.env['PATH'],
    HOME: folder,
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    ...Object.fromEntries(
      ['AUTHOR', 'COMMITTER'].flatMap((who) => [
        [`GIT_${who}_NAME`, 'Ada'],
        [`GIT_${who}_EMAIL`, 'ada@example.com'],
      ]),
    ),
  }
  const git = (...args: string[]): string => execFileSync('git', args, { cwd: folder, env, encoding: 'utf8', stdio: 'pipe' }).trim()
  git('init', '-q')
  return {
    folder,
    git,
    commit(subject, hooks = '/dev/null') {
      git('-c', `core.hooksPath=${hooks}`, 'commit', '-q', '--allow-empty', '-m', subject)
      return git('rev-parse', '--short', 'HEAD')
    },
  }
}

function bringRule({ folder, git, commit }: Repository): string {
  mkdirSync(join(folder, 'scripts'))
  for (const file of ['commits.ts', 'commit-verbs.ts']) cpSync(join(root, 'scripts', file), join(folder, 'scripts', file))
  git('add', 'scripts')
  return commit('scripts: check commit subjects')
}

test('commits are checked from the one on that brought the rule, or in the range that is named', { skip }, (t) => {
  const repo = repository(t)
  const old = repo.commit('What an old subject; with two halves')
  assert.match(checkCommits(repo.folder).lines[0]!, /no commit has brought scripts\/commit-verbs\.ts yet: no commit subject was checked/)
  bringRule(repo)
  repo.commit('kernel: refuse unknown fields')
  assert.deepEqual(checkCommits(repo.folder).code, 0)
  const bad = repo.commit('kernel: refused it')
  const { code, lines } = checkCommits(repo.folder)
  assert.equal(code, 1)
  assert.deepEqual(
    lines.map((line) => line.split(': "refused"')[0]),
    [`${bad} "kernel: refused it"`],
  )
  assert.equal(checkCommits(repo.folder, 'HEAD~2..HEAD~1').code, 0)
  assert.ok(
    checkCommits(repo.folder, 'HEAD').lines.some((line) => line.startsWith(old)),
    'the whole history, when it is asked for',
  )
  for (const range of ['nowhere..HEAD', '--all'])
    assert.deepEqual(checkCommits(repo.folder, range), { code: 2, lines: [`${range} is no range of commits, such as main..HEAD`] })
})

test('a folder without history of its own passes and says so', { skip }, (t) => {
  const repo = repository(t)
  repo.commit('What came first')
  bringRule(repo)
  repo.commit('bad')
  const inner = join(repo.folder, 'copied')
  mkdirSync(inner)
  const shallow = join(repo.folder, 'shallow')
  repo.git('clone', '-q', '--depth', '1', `file://${repo.folder}`, shallow)
  for (const [folder, range, why] of [
    [inner, undefined, /no git history of its own/],
    [shallow, undefined, /shallow clone, its history is cut off/],
    [shallow, 'HEAD~1..HEAD', /shallow clone without HEAD~1\.\.HEAD/],
  ] as const) {
    const { code, lines } = checkCommits(folder, range)
    assert.equal(code, 0)
    assert.match(lines[0]!, why)
  }
})

test('the hook refuses a subject and names the rule, and lets a clone without tools commit', { skip }, (t) => {
  const repo = repository(t)
  bringRule(repo)
  cpSync(join(root, '.githooks'), join(repo.folder, '.githooks'), { recursive: true })
  repo.commit('what no rule sees', '.githooks')
  mkdirSync(join(repo.folder, 'node_modules', '.bin'), { recursive: true })
  symlinkSync(process.execPath, join(repo.folder, 'node_modules', '.bin', 'node'))
  assert.throws(() => repo.commit('what no rule sees', '.githooks'), /does not begin with an area/)
  repo.commit('kernel: see the rule', '.githooks')
})

test('an option that the check does not know is refused', () => {
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'scripts', 'check.ts'), '--commit'], { encoding: 'utf8' })
  assert.equal(status, 2)
  assert.match(stderr, /usage: .*--commits \[range\]/)
})
