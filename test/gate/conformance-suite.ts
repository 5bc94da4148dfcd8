// The conformance suite of MCP, run against a server.
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')
const suite = join(root, 'node_modules/@modelcontextprotocol/conformance/dist/index.js')
/** Extensions are not required; the gate has one of them that the fixture has not. */
const isExtension = (scenario: string): boolean => scenario.startsWith('tasks-')
/** Closing a stream before its answer is the transport's own, and the header of an argument is checked by the tool's server. */
const PENDING = new Set(['server-sse-polling', 'http-custom-header-server-validation'])

export const isLong = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all'
export const revisions = ['2026-07-28', '2025-11-25'] as const
export type Revision = (typeof revisions)[number]
/** The fewest scenarios that a revision requires. */
export const SCENARIOS_MIN = 30
/** Outside of the long run: what a session, a stream or a held state can spoil. Others, such as `server-stateless`, wait for at most 2 s. */
export const few: Readonly<Record<Revision, readonly string[]>> = {
  '2026-07-28': ['tools-call-with-progress', 'input-required-result-multi-round', 'input-required-result-request-state'],
  '2025-11-25': ['tools-call-with-progress', 'tools-call-elicitation', 'server-session-lifecycle'],
}

/** The checks of each scenario, in order. */
export type Results = ReadonlyMap<string, readonly string[]>
type Check = { readonly id: string; readonly status: string; readonly errorMessage?: string }

async function resultsWith(url: string, chosen: readonly string[]): Promise<Results> {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'))
  try {
    await new Promise<void>((done) => {
      execFile(process.execPath, [suite, 'server', '--url', url, ...chosen, '-o', folder], { cwd: folder }, () => done())
    })
    const results = new Map<string, string[]>()
    for (const name of readdirSync(folder)) {
      const scenario = /^server-(.+)-\d{4}-\d\d-\d\dT/.exec(name)![1]!
      const file = join(folder, name, 'checks.json')
      const checks = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Check[]) : []
      if (!isExtension(scenario) && !PENDING.has(scenario))
        results.set(scenario, checks.map(({ id, status, errorMessage = '' }) => `${id} ${status} ${errorMessage}`.trim()).toSorted())
    }
    return results
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** All scenarios that a revision requires. */
export const resultsOf = (url: string, revision: Revision): Promise<Results> => resultsWith(url, ['--requirements', revision])

export async function resultsOfFew(url: string, revision: Revision): Promise<Results> {
  // One after the other: a gate declines a question of a legacy upstream while several clients have calls running.
  const results = new Map<string, readonly string[]>()
  for (const scenario of few[revision])
    for (const [name, checks] of await resultsWith(url, ['--scenario', scenario, '--spec-version', revision])) results.set(name, checks)
  return results
}

/** A scenario without checks did not run. */
export const failuresIn = (results: Results): [string, readonly string[]][] =>
  [...results].filter(([, checks]) => checks.length === 0 || checks.some((check) => check.includes(' FAILURE')))
