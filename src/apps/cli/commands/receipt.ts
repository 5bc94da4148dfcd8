// Receipts: verified without asking anybody, and the keys that they are signed with.
import { join } from 'node:path'
import type { Claims, Verdict } from '#protocols/execution/answering/receipt-format.ts'
import { limits } from '#kernel/limits.ts'
import { verifyReceipt, type EnrolledPasskey } from '#sdk/receipt.ts'
import { jwksOf, type KeyRing } from '#workers/keys/key-ring.ts'
import { realClock, realEntropy } from '../../server/clock.ts'
import { StartError } from '../../server/start-error.ts'
import { CliError, exits, usage, type Exit } from '../exit-codes.ts'
import { flag, type FlagValues } from '../derive/flags.ts'
import { unreachable } from '../remote/http.ts'
import { readInput } from '../input/read-input.ts'
import { dataFolder, targetOf } from '../remote/credentials.ts'
import { writeJson } from '../output/render.ts'
import { databaseIn, rotateInDatabase, rotatePushesInDatabase } from './database.ts'
import { spec, type Context, type Spec } from '../derive/command.ts'
import { tableOf } from '../terminal.ts'
import { escapeControl } from '../output/safe-text.ts'

const FILE_BYTES_MAX = 2 * limits.receiptCharsMax
const KEYS_MS = 5_000
const keysFlag = flag('keys', 'file', 'the public keys as they were saved: the answer of /.well-known/jwks.json')

const verify = spec('receipt verify', 'Verify that a receipt is as a server signed it; with saved keys, without any network.', {
  positionals: [{ ...flag('file', 'file', 'the receipt as JSON; - reads standard input'), required: true }],
  flags: [
    keysFlag,
    flag('request', 'file', 'the request as it was created: the receipt must answer this one'),
    flag('audience', 'agent_id', 'the agent that it must be made out to'),
    flag(
      'passkeys',
      'file',
      'the enrolled passkeys of people, the answer of passkey.list: the signature of a person must be by one of these',
    ),
    flag('issuer', 'issuer', 'the server that it must be from: its origin, its installation id, or both as origin#id'),
  ],
  examples: [
    'countersign receipt verify receipt.json --keys jwks.json',
    'countersign receipt verify - --url https://tasks.example.com < receipt.json',
    'countersign receipt verify receipt.json --data /var/lib/countersign --request request.json',
  ],
  async run(context, given): Promise<Exit> {
    const { io } = context
    const [file, request, passkeys] = ['file', 'request', 'passkeys'].map((name) => given.get(name) as string | undefined)
    if ([file, request, passkeys, given.get('keys')].filter((name) => name === '-').length > 1)
      throw usage('only one of the files can be -')
    const verdict = await verifyReceipt(await receiptIn(context, file!), {
      jwks: await keysFor(context, given),
      audience: given.get('audience') as string | undefined,
      issuer: given.get('issuer') as string | undefined,
      ...(request === undefined ? {} : { request: await jsonIn(context, request) }),
      ...(passkeys === undefined ? {} : { passkeys: enrolledIn(await jsonIn(context, passkeys), passkeys) }),
    })
    if (context.json) writeJson(context, verdict)
    else io.out.write(verdict.ok ? proven(verdict, request !== undefined, context) : failureText(verdict, context))
    return verdict.ok ? exits.ok : exits.refused
  },
})

function proven({ claims, unsigned }: Verdict & { ok: true }, isMatched: boolean, { paint }: Context): string {
  const lines: readonly (readonly [string, string])[] = [
    ['request', `${claims.request_id} (${claims.action})${isMatched ? ', the one given' : ''}`],
    ['for', claims.aud],
    ...(claims.basis.kind === 'default' ? [['default', DEFAULT] as const] : []),
    ['outcome', outcomeOf(claims)],
    ['decided by', deciderOf(claims)],
    ...(claims.assertion === undefined ? [] : [['signed by', `the passkey ${claims.assertion.credential_id} of the person`] as const]),
    ['at', claims.completed_at],
    ['record', `${claims.log.project_id}, number ${claims.log.seq}, ${claims.log.hash}`],
    ['from', claims.iss],
    ...(unsigned.length === 0 ? [] : [['not signed', unsigned.join(', ')] as const]),
  ]
  const rows = lines.map(([name, message]) => `  ${paint('dim', name.padEnd(11))} ${escapeControl(message)}\n`).join('')
  return `${paint('green', '✔')} the receipt is genuine\n${rows}`
}

/** X29: printed before the result. */
const DEFAULT = 'nobody answered in time: the default that the agent had stated was taken'

function outcomeOf({ status, result, result_ref, reason }: Claims): string {
  const answer = result ?? result_ref
  const message = answer === undefined ? '' : `: ${typeof answer === 'string' ? answer : JSON.stringify(answer)}`
  return `${status}${message}${reason ? ` (${reason})` : ''}`
}

function deciderOf({ decided_by, basis }: Claims): string {
  const via =
    decided_by.via === null ? '' : ` with a ${decided_by.via === 'development' ? 'credential of development mode' : decided_by.via}`
  return `${decided_by.kind} ${decided_by.sub ?? ''}`.trim() + `${via}, by ${basis.kind}`
}

const failureText = ({ reason, words: message }: Verdict & { ok: false }, { paint }: Context): string =>
  `${paint('red', '✖')} the receipt does not hold: ${escapeControl(message)} ${paint('dim', `[${reason}]`)}\n`

/** Returns the text: parsing it would drop duplicate fields. */
async function receiptIn({ io }: Context, path: string): Promise<string> {
  const text = (await readInput(io, path, FILE_BYTES_MAX)).toString()
  parseFile(text, path)
  return text
}

const jsonIn = async ({ io }: Context, path: string): Promise<unknown> =>
  parseFile((await readInput(io, path, FILE_BYTES_MAX)).toString(), path)

function parseFile(text: string, path: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw usage(`${path === '-' ? 'standard input' : path} is not JSON`)
  }
}

function enrolledIn(found: unknown, where: string): EnrolledPasskey[] {
  const items = typeof found === 'object' && found !== null && 'items' in found ? found.items : found
  const isEnrolled = (each: unknown): each is EnrolledPasskey =>
    typeof each === 'object' && each !== null && ['credential_id', 'alg', 'jwk', 'rp_id'].every((field) => field in each)
  if (Array.isArray(items) && items.every(isEnrolled)) return items
  throw usage(`${where} holds no passkeys`, 'save them with `countersign passkey list --json`')
}

// --- Keys ------------------------------------------------------------------------------------------------------------------

type Jwks = { readonly keys: readonly Readonly<Record<string, unknown>>[] }

/** From a file, a data folder or a server, in this order. */
async function keysFor(context: Context, given: FlagValues): Promise<Jwks> {
  const { io, globals } = context
  const file = given.get('keys') as string | undefined
  if (file !== undefined) return keySet(await jsonIn(context, file), file)
  if (globals.data !== undefined) {
    const { keysIn, readRing } = await import('../../server/folder/key-files.ts')
    return jwksOf(await fromFolder(() => readRing(keysIn(dataFolder(io, globals))))) as Jwks
  }
  const { url } = await targetOf(io, globals)
  return keySet(await fetchKeys(url), url)
}

function keySet(found: unknown, where: string): Jwks {
  const keys = typeof found === 'object' && found !== null && 'keys' in found ? found.keys : null
  if (Array.isArray(keys) && keys.every((key) => typeof key === 'object' && key !== null)) return { keys }
  throw usage(`${where} holds no key set`, 'save one with `curl <server>/.well-known/jwks.json`')
}

async function fetchKeys(url: string): Promise<unknown> {
  const answer = await fetch(`${url}/.well-known/jwks.json`, { signal: AbortSignal.timeout(KEYS_MS), redirect: 'error' }).catch(() => {
    throw unreachable(url, 'connection refused')
  })
  if (!answer.ok) throw new CliError(exits.refused, 'NO_KEYS', `${url} publishes no keys (status ${answer.status})`)
  return answer.json().catch(() => null)
}

async function fromFolder<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof RangeError) throw new CliError(exits.refused, 'TOO_MANY', error.message)
    if (!(error instanceof StartError)) throw error
    throw new CliError(exits.refused, 'NO_KEYS', error.message, '--data names the folder that the server uses')
  }
}

const list = spec('receipt keys', 'List the keys that receipts are signed with, now and before, and their dates.', {
  flags: [keysFlag],
  examples: ['countersign receipt keys', 'countersign receipt keys --data /var/lib/countersign --json'],
  async run(context, given) {
    const { keys } = await keysFor(context, given)
    if (context.json) return writeJson(context, { keys })
    const text = (value: unknown): string => (typeof value === 'string' ? value : '-')
    const rows = keys.map((key) => [text(key['kid']), text(key['countersign:from']), text(key['countersign:until'])])
    const columns = ['KEY', 'FROM', 'UNTIL'].map((title) => ({ title }))
    context.io.out.write(tableOf(columns, rows, context.io.out, context.paint))
  },
})

const rotate = spec(
  'receipt rotate',
  'Sign receipts with a new key from now on; the old one stays published, its private half is destroyed.',
  {
    isLocal: true,
    flags: [
      flag('lost', null, 'replace missing or broken keys; data sealed with them stays sealed'),
      flag('push', null, 'the key of pushes to browsers instead: new subscriptions use a new one, earlier ones keep working'),
    ],
    examples: ['countersign receipt rotate --data /var/lib/countersign', 'countersign receipt rotate --lost --data ./data'],
    async run(context, given) {
      const { io, globals, paint } = context
      const { keysIn, replaceLost, rotateKeys } = await import('../../server/folder/key-files.ts')
      const keys = keysIn(dataFolder(io, globals))
      const database = globals.data === undefined ? databaseIn(io) : null
      if (given.get('push') === true) {
        if (database) throw usage('push keys are derived from the keys of the shared database: there is no separate key to rotate')
        const { rotatePushKeys } = await import('../../server/folder/push-key-file.ts')
        const { current } = database
          ? await rotatePushesInDatabase(database)
          : await fromFolder(() => rotatePushKeys(keys, realClock.now()))
        if (context.json) return writeJson(context, { key: current.key })
        return void io.out.write(
          `${paint('green', '✔')} new subscriptions are made with ${current.key}; a running server takes it within seconds\n`,
        )
      }
      if (given.get('lost') === true) {
        if (database) throw usage('keys in a shared database are restored from a backup of it', 'omit --lost')
        const replaced = await fromFolder(() => replaceLost(keys, { now: realClock.now, entropy: realEntropy }))
        if (context.json) return writeJson(context, { made: replaced })
        return void io.out.write(
          replaced.length === 0
            ? 'nothing is missing\n'
            : replaced.map((file) => `${paint('yellow', '!')} replaced: ${escapeControl(file)}\n`).join(''),
        )
      }
      const ring: KeyRing = database ? await rotateInDatabase(database) : await fromFolder(() => rotateKeys(keys, realClock.now()))
      if (context.json) return writeJson(context, jwksOf(ring))
      const { kid } = ring.current
      io.out.write(`${paint('green', '✔')} receipts are signed with ${kid} now; a running server takes it within seconds\n`)
      const where = database ? 'the database' : join(keys, 'signing.json')
      io.out.write(`  ${paint('dim', `${ring.retired[0]!.kid} stays published; keep backups of ${where}`)}\n`)
    },
  },
)

export const receiptSpecs: readonly Spec[] = [verify, list, rotate]
