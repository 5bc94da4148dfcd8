// The record: checked to its end, page by page, and rebuilt for one task. A record that is not in order ends with exit code 1.
import { rmSync } from 'node:fs'
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import type { Found } from '#kernel/log/store.ts'
import type { Input, Output } from '#sdk/client.ts'
import { derivedSpec, inputOf } from '../derive/from-operation.ts'
import { StartError } from '../../server/start-error.ts'
import { CliError, exits, type Exit } from '../exit-codes.ts'
import { flag } from '../derive/flags.ts'
import { dataFolder } from '../remote/credentials.ts'
import { recordAt } from '../remote/http.ts'
import { listings } from '../derive/columns.ts'
import type { Remote } from '../remote/remote.ts'
import { tableFor, writeJson } from '../output/render.ts'
import { spec, type Context, type Spec } from '../derive/command.ts'
import { startProgress } from '../terminal.ts'
import { escapeControl } from '../output/safe-text.ts'

const [VERIFY, EXPORT, REPLAY] = ['collaboration/audit.verify', 'collaboration/audit.export', 'collaboration/audit.replay'] as const
type Verified = Pick<Output<typeof VERIFY>, 'verified' | 'head' | 'valid' | 'difference'> & { readonly project_id: string }

export function verifySpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const commandSpec: Spec = {
    ...derived,
    summary: 'Verify the hash chain of a project from its first event to its last; with --all everything that is stored.',
    flags: [
      // Its one field needs no file.
      ...derived.flags.filter(({ name }) => name !== 'cursor' && name !== 'file'),
      flag('file', 'path', 'a bundle that `audit export` wrote, - for standard input: it is checked without a server'),
      flag('policy', 'path', 'whom to trust: the keys of the log and of its witnesses (GET /log/policy); needed with --file'),
      flag(
        'all',
        null,
        'every project, the record of people and keys, and differences that the server found elsewhere; with --data everything is examined now',
      ),
    ],
    examples: [
      'countersign audit verify',
      'countersign audit verify --all',
      'countersign audit verify --all --data ./data',
      'countersign audit verify --file b.ndjson --policy p.txt',
    ],
    async run(context, given) {
      const file = given.get('file') as string | undefined
      // Without any server, and without this one's word.
      if (file !== undefined)
        return (await import('../log/verify-file.ts')).verifyFile(context, file, given.get('policy') as string | undefined)
      const { project_id = 'project_default' } = (await inputOf(context, op, commandSpec, given)) as { project_id?: string }
      const remote = await context.remote()
      const isAll = given.get('all') === true
      const scopes = isAll ? await scopesOf(remote) : [project_id]
      const results: Verified[] = []
      let found: readonly Found[] = []
      const progress = startProgress(context.io.err, 'verifying the record')
      try {
        for (const scope of scopes) results.push(await verifyProject(remote, scope, progress.say))
        found = isAll ? await findDifferences(remote, progress.say) : await besidesChain(remote, project_id)
      } finally {
        progress.stop()
      }
      return printResults(context, results, found)
    },
  }
  return commandSpec
}

/** Differences that chains do not show. A server examines itself in rounds and says what it has found; a folder is examined here. */
async function findDifferences(remote: Remote, say: (message: string) => void): Promise<readonly Found[]> {
  if (remote.isOffline) return (await (await import('../remote/examine-folder.ts')).examineFolder(remote.where, say)).found
  const { findings, findings_total: total } = await remote.call(VERIFY, { project_id: 'system' })
  if (total !== null) {
    const more = total - findings.length
    return more === 0 ? findings : [...findings, { what: remote.where, how: `${more} more differ from the record: its log names them` }]
  }
  const how = await recordAt(remote.where).then(objectionTo, (error: unknown) => uncheckedMessage(`there is no answer: ${String(error)}`))
  return how === null ? [] : [{ what: remote.where, how }]
}

/** `verifying` is in order, too: the server is still at the chains, which were verified from here. */
function objectionTo(record: unknown): string | null {
  if (record === 'verified' || record === 'verifying') return null
  return record === 'changed'
    ? 'the server found a difference from the record: administrators and owners of the installation can see it'
    : uncheckedMessage(record === undefined ? 'it does not say' : `it says ${JSON.stringify(record)}, which this version does not know`)
}
const uncheckedMessage = (why: string): string =>
  `the server was asked at /health whether everything is as recorded, and ${why}; documents, indexes, bytes and key files are not checked`

/** How far the record was verified before: a chain that was cut or rewritten is still a correct chain. */
async function besidesChain(remote: Remote, project_id: string): Promise<readonly Found[]> {
  const difference = remote.isOffline ? await (await import('../remote/examine-folder.ts')).markerDifference(remote.where) : null
  const isHere = difference !== null && (difference.scope === project_id || difference.scope === 'all')
  return isHere ? [{ what: `project ${difference.scope}, number ${difference.seq}`, how: difference.what }] : []
}

/** Every project that can be seen, and the chain of identity facts. */
async function scopesOf(remote: Remote): Promise<string[]> {
  const found: string[] = ['system']
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: Output<'identity/project.list'> = await remote.call('identity/project.list', cursor === '' ? {} : { cursor })
    found.push(...page.items.map(({ id }) => id))
    cursor = page.next_cursor
  }
  return found
}

async function verifyProject(remote: Remote, project_id: string, say: (message: string) => void): Promise<Verified> {
  let count = 0
  for (let cursor: string | null = null; ;) {
    const stretch: Output<typeof VERIFY> = await remote.call(VERIFY, { project_id, ...(cursor === null ? {} : { cursor }) })
    count += stretch.verified
    const { head, valid, difference } = stretch
    if (stretch.next_cursor === null || !valid) return { project_id, verified: count, head, valid, difference }
    say(`verifying ${project_id}: ${stretch.to_seq} of ${head.seq}`)
    cursor = stretch.next_cursor
  }
}

function printResults(context: Context, results: readonly Verified[], found: readonly Found[]): Exit {
  const { io, paint } = context
  const isInOrder = results.every(({ valid }) => valid) && found.length === 0
  if (context.json) writeJson(context, { valid: isInOrder, projects: results, findings: found })
  else {
    for (const result of results) io.out.write(`${sentenceOf(result, context)}\n`)
    for (const { what, how } of found) io.out.write(`${paint('red', '✖')} ${escapeControl(what)}: ${escapeControl(how)}\n`)
  }
  return isInOrder ? exits.ok : exits.refused
}

function sentenceOf({ project_id, verified: count, head, valid, difference }: Verified, { paint }: Context): string {
  if (valid)
    return `${paint('green', '✔')} ${escapeControl(project_id)}: ${count} events in order, the last is number ${head.seq} ${paint('dim', head.hash)}`
  return `${paint('red', '✖')} ${escapeControl(project_id)}: number ${difference?.seq ?? '?'} is not what was recorded: ${escapeControl(difference?.what ?? '')}`
}

export function exportSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const commandSpec: Spec = {
    ...derived,
    summary:
      'Export a bundle: facts about one thing, or the record of a project, with proofs; `audit verify --file` checks it without a server.',
    flags: derived.flags.filter(({ name }) => name !== 'cursor'),
    examples: ['countersign audit export hxp_01M7GMWX16 > b.ndjson', 'countersign audit export --project-id project_a > record.ndjson'],
    async run(context, given) {
      const input = await inputOf(context, op, commandSpec, given)
      const remote = await context.remote()
      const progress = startProgress(context.io.err, 'exporting')
      let lines = 0
      try {
        for (let cursor: string | null = null; ;) {
          const page: Output<typeof EXPORT> = await remote.call(EXPORT, { ...input, ...(cursor === null ? {} : { cursor }) })
          context.io.out.write(page.ndjson)
          if (page.next_cursor === null) break
          lines += page.ndjson.split('\n').length - 1
          progress.say(`exporting: ${lines} lines`)
          cursor = page.next_cursor
        }
      } finally {
        progress.stop()
      }
    },
  }
  return commandSpec
}

export function replaySpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const commandSpec: Spec = {
    ...derived,
    flags: derived.flags.filter(({ name }) => name !== 'cursor'),
    async run(context, given) {
      const input = (await inputOf(context, op, commandSpec, given)) as Input<typeof REPLAY>
      const remote = await context.remote()
      const answer = await remote.call(REPLAY, input)
      while (answer.next_cursor !== null) {
        const page: Output<typeof REPLAY> = await remote.call(REPLAY, { ...input, cursor: answer.next_cursor })
        answer.events.push(...page.events)
        answer.next_cursor = page.next_cursor
      }
      if (context.json) writeJson(context, answer)
      else {
        const { io, paint } = context
        const steps = listings.find(({ marks }) => marks.includes('seq') && marks.includes('actor'))!
        io.out.write(await tableFor(context, answer.events, steps))
        const message = answer.matches
          ? `${paint('green', '✔')} rebuilt from ${answer.replayed} events: all ${answer.documents.length} documents are as they are stored`
          : `${paint('red', '✖')} number ${answer.difference?.seq ?? '?'}: ${escapeControl(answer.difference?.what ?? '')}`
        io.out.write(`${message}\n`)
      }
      return answer.matches ? exits.ok : exits.refused
    },
  }
  return commandSpec
}

/** After a backup was restored on purpose: the next start of this data folder accepts the record without a comparison. */
export const acceptSpec = spec(
  'audit accept',
  'After restoring a backup: let the next start take the record as it is, although this data folder has seen a later one.',
  {
    flags: [],
    examples: ['countersign audit accept --data /var/lib/countersign'],
    async run(context) {
      const { io, globals, paint } = context
      const folder = dataFolder(io, globals)
      const { anchorIn, sharedAnchorIn } = await import('../../server/folder/anchor.ts')
      const { markerIn } = await import('../../server/folder/data-folder.ts')
      const { lockFolder } = await import('../../server/folder/folder-lock.ts')
      const free = orRefused(() => lockFolder(folder, `a server uses ${folder}: stop it first`))
      try {
        const [local, shared] = [anchorIn(folder), sharedAnchorIn(folder)]
        const { COUNTERSIGN_DATABASE, COUNTERSIGN_DATABASE_FILE } = io.env
        const isOfDatabase = Boolean(COUNTERSIGN_DATABASE || COUNTERSIGN_DATABASE_FILE) || (await local.read()) === null
        const file = isOfDatabase ? shared : local
        const anchor = await file.read()
        if (anchor === null)
          throw new CliError(
            exits.refused,
            'NO_ANCHOR',
            `there is no anchor in ${folder}, so there is nothing to accept`,
            '--data names the folder that the server uses; without an anchor it starts',
          )
        await file.write({ ...anchor, accepted: true })
        // It names facts that the restored record may not have. Without it everything is verified again.
        if (!isOfDatabase) rmSync(markerIn(folder), { force: true })
        const seen = anchor.position
        if (context.json) return writeJson(context, { data: folder, store: isOfDatabase ? 'postgres' : 'sqlite', seen })
        const store = isOfDatabase ? 'the database' : 'the data folder'
        io.out.write(
          `${paint('green', '✔')} the next start on ${store} takes the record as it is, and writes on it that position ${seen} had been seen\n`,
        )
        if (!isOfDatabase && (await shared.read()) !== null)
          io.out.write('set COUNTERSIGN_DATABASE to accept the record of the database that this data folder was used with\n')
      } finally {
        free()
      }
    },
  },
)

function orRefused<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof StartError)) throw error
    throw new CliError(exits.refused, 'IN_USE', error.message)
  }
}
