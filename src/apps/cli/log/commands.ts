// The log of the record: its state, the policy for verifiers, a new key, and a copy for any web server. `countersign witness` in the lists.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { TILE_HASHES, tilePath, widthOf } from '#kernel/log/tree/tiles.ts'
import { checkpointIn } from '#kernel/log/tree/checkpoint.ts'
import { noteIn, Unreadable } from '#kernel/log/tree/note.ts'
import { realClock } from '../../server/clock.ts'
import { nodePolicyIn } from '#workers/keys/log-key.ts'
import type { LogHealth } from '#workers/log/record-log.ts'
import { StartError } from '../../server/start-error.ts'
import { witnessFlags } from '../../witness/flags.ts'
import { CliError, exits, usage } from '../exit-codes.ts'
import { flag } from '../derive/flags.ts'
import { spec, type Context, type Spec } from '../derive/command.ts'
import { writeJson } from '../output/render.ts'
import { escapeControl } from '../output/safe-text.ts'
import { dataFolder, targetOf } from '../remote/credentials.ts'
import { unreachable } from '../remote/http.ts'
import { databaseIn, rotateLogInDatabase } from '../commands/database.ts'

const ANSWER_MS = 10_000

/** A file below `/log` of the server. */
async function fetchBytes({ io, globals }: Context, path: string): Promise<Buffer> {
  const { url, key } = await targetOf(io, globals)
  const headers = key === null ? {} : { authorization: `Bearer ${key}` }
  const answer = await fetch(`${url}${path}`, { headers, redirect: 'error', signal: AbortSignal.timeout(ANSWER_MS) }).catch(
    (error: Error) => {
      throw unreachable(url, (error.cause as Error | undefined)?.message ?? error.message)
    },
  )
  if (answer.ok || path === '/health') return Buffer.from(await answer.arrayBuffer())
  const hint =
    answer.status === 404 ? 'a read-only server keeps no log' : 'with --log-public off, only owners and administrators can read the log'
  throw new CliError(exits.refused, 'NO_LOG', `${url}${path} answers with status ${answer.status}`, hint)
}
const fetchText = async (context: Context, path: string): Promise<string> => (await fetchBytes(context, path)).toString('utf8')

/** Another server, or a proxy, can answer with anything. */
function readAs<T>(path: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof Unreadable) throw new CliError(exits.refused, 'NO_LOG', `the answer of ${path} cannot be read: ${error.message}`)
    throw error
  }
}

const show = spec('log show', 'Show the log: its name, how many facts it covers, and what its witnesses have cosigned.', {
  examples: ['countersign log show', 'countersign log show --json'],
  async run(context) {
    const { log } = JSON.parse(await fetchText(context, '/health')) as { readonly log?: LogHealth | null }
    if (!log)
      throw new CliError(exits.refused, 'NO_LOG', 'this server keeps no log', 'a read-only server, or one on a changed record, keeps none')
    if (context.json) return writeJson(context, log)
    const { origin, size, signed, witnessed, witnesses } = log
    const rows = [
      ['log', origin],
      ['facts', `${size}, ${signed} signed, ${witnessed} with enough witnesses`],
      ...witnesses.map((witness) => ['witness', `${witness.name}: ${witness.state}, ${witness.size} facts`]),
    ]
    context.io.out.write(rows.map(([name, value]) => `${context.paint('dim', name!.padEnd(10))} ${escapeControl(value!)}\n`).join(''))
  },
})

const policy = spec('log policy', 'Print the policy that auditors verify bundles with: the key of the log, and its witnesses.', {
  examples: ['countersign log policy > p.txt'],
  async run(context) {
    const text = await fetchText(context, '/log/policy')
    readAs('/log/policy', () => nodePolicyIn(text))
    if (context.json) writeJson(context, { policy: text })
    else context.io.out.write(text)
  },
})

const rotate = spec('log rotate', 'Sign checkpoints with a new key from now on; the private half of the old one is destroyed.', {
  isLocal: true,
  flags: [flag('lost', null, 'replace a missing or broken key')],
  examples: ['countersign log rotate --data /var/lib/countersign', 'countersign log rotate --lost --data ./data'],
  async run(context, given) {
    const { io, globals, paint } = context
    const { replaceLostLogKey, rotateLogKey } = await import('../../server/record-log/key.ts')
    const { keysIn } = await import('../../server/folder/key-files.ts')
    const keys = keysIn(dataFolder(io, globals))
    const database = globals.data === undefined ? databaseIn(io) : null
    const isLost = given.get('lost') === true
    if (isLost && database) throw usage('the key in a shared database is restored from a backup of it', 'omit --lost')
    const now = realClock.now()
    const ring = await orRefused(() =>
      database ? rotateLogInDatabase(database) : isLost ? replaceLostLogKey(keys, now) : rotateLogKey(keys, now),
    )
    if (context.json) return writeJson(context, { key: ring?.current.kid ?? null })
    io.out.write(
      ring === null
        ? 'nothing is missing\n'
        : `${paint('green', '✔')} checkpoints are signed with ${ring.current.kid} now; a running server takes it within seconds\n` +
            '  give witnesses and auditors the new policy: countersign log policy\n',
    )
  },
})

async function orRefused<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StartError || error instanceof RangeError) throw new CliError(exits.refused, 'NO_KEY', error.message)
    throw error
  }
}

const publish = spec('log publish', 'Copy the checkpoint, the tiles and the policy to a folder that any web server can serve.', {
  positionals: [{ ...flag('folder', 'folder', 'where to; full tiles that are there are not fetched again'), required: true }],
  examples: ['countersign log publish /var/www/log'],
  async run(context, given) {
    const folder = resolve(context.io.cwd, given.get('folder') as string)
    const note = await fetchText(context, '/log/checkpoint')
    const { size } = readAs('/log/checkpoint', () => checkpointIn(noteIn(note).text))
    let tiles = 0
    for (const path of tilesOf(size)) {
      const isFull = !path.includes('.p/')
      if (isFull && existsSync(join(folder, path))) continue
      write(join(folder, path), await fetchBytes(context, `/log/${path}`))
      tiles++
    }
    write(join(folder, 'policy'), await fetchText(context, '/log/policy'))
    // Last: everything that it promises is there.
    write(join(folder, 'checkpoint'), note)
    if (context.json) return writeJson(context, { folder, size, tiles })
    context.io.out.write(`${context.paint('green', '✔')} ${folder}: ${size} facts, ${tiles} new tiles\n`)
  },
})

function* tilesOf(size: number): Generator<string> {
  for (let level = 0, count = size; count > 0; level++, count = Math.floor(count / TILE_HASHES))
    for (let n = 0; n * TILE_HASHES < count; n++) yield tilePath({ level, n, width: widthOf({ level, n }, size) })
}

function write(file: string, content: string | Buffer): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, content)
}

const witness = spec('witness', 'Run a witness: it cosigns the log of somebody else as long as it only grows.', {
  isLocal: true,
  flags: witnessFlags.filter(({ name }) => name !== 'data').map(({ name, value, help }) => flag(name, value.replaceAll(/[<>]/g, ''), help)),
  examples: ["countersign witness --log 'tasks.example.com/log+2b0d6ae5+AdZ...' --name w.lab.example --data w"],
  run: () => Promise.reject(usage('witness comes first: countersign witness [options]')),
})

export const logSpecs: readonly Spec[] = [show, policy, rotate, publish, witness]
