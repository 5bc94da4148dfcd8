// The target of a command: a server over HTTP, or a data folder that is read without one.
import { protocols } from '#protocols/index.ts'
import type { CallName, Input, Output } from '#sdk/client.ts'
import type { Hxp } from '#sdk/hxp.ts'
import type { Downloaded, Progress } from '#sdk/transport/transport.ts'
import { CliError, exits } from '../exit-codes.ts'
import { callsBy } from './calls.ts'
import { keylessAgent, onlyAs } from './agent-child.ts'
import { openHttpRemote, refuseAbsent } from './http.ts'
import { orderFields, outputsOf } from '../output/field-order.ts'
import { dataFolder, isLocal, shownFolder, targetOf, type Target } from './credentials.ts'
import type { Globals } from '../derive/command.ts'
import type { Io, Paint } from '../terminal.ts'

export type AnyOutput = Readonly<Record<string, unknown>>
export type Followed = { readonly cursor: string; readonly item: AnyOutput }
export type RemoteOptions = { readonly key?: string; readonly timeoutMs?: number; readonly signal?: AbortSignal | undefined }
export type Remote = {
  /** The server's address or the folder's path. */
  readonly where: string
  readonly isOffline: boolean
  call<N extends CallName>(operation: N, input: Input<N>, options?: RemoteOptions): Promise<Output<N>>
  /** Calls an operation whose name is known at run time only. */
  callAny(operation: string, input: object, options?: RemoteOptions): Promise<AnyOutput>
  /** Resumes after a lost connection from its last position; ends when the signal aborts. */
  follow(
    operation: string,
    input: object,
    options: { readonly after: string | null; readonly signal: AbortSignal; readonly onOpen?: () => void; readonly onBreak?: () => void },
  ): AsyncIterable<Followed>
  upload(operation: string, input: object, bytes: Blob, onProgress: Progress): Promise<AnyOutput>
  download(operation: string, input: object, onProgress: Progress): Promise<Downloaded>
  /** Asks people and waits for them. */
  asking<T>(work: (hxp: Hxp) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export async function openRemote(io: Io, globals: Globals, paintErr: Paint): Promise<Remote> {
  const remote = await openAny(io, globals, paintErr)
  const outputs = outputsOf(protocols)
  return {
    ...remote,
    ...callsBy(
      async (operation, input, options) =>
        orderFields(await remote.callAny(operation, input, options), outputs.get(operation)) as AnyOutput,
    ),
  }
}

async function openAny(io: Io, globals: Globals, paintErr: Paint): Promise<Remote> {
  // Loaded only when needed: a command that calls a server uses neither store nor contracts.
  if (globals.data !== undefined) return (await import('./folder.ts')).openFolder(dataFolder(io, globals))
  const target = await targetOf(io, globals)
  if (target.key === null && target.agent !== null) throw keylessAgent(target.agent)
  if (target.key === null) {
    await refuseAbsent(target.url)
    if (target.source === 'stale login') {
      const message = `another installation answers at ${target.url} than the one you logged in at; your key was not sent there`
      throw new CliError(exits.unauthenticated, 'UNAUTHENTICATED', message, staleHint(target.url))
    }
    throw new CliError(
      exits.unauthenticated,
      'UNAUTHENTICATED',
      `you are not logged in at ${target.url}`,
      isLocal(target.url) ? `${LOGIN_HERE}; with a key: ${LOGIN_WITH_KEY}` : LOGIN_WITH_KEY,
    )
  }
  if (target.source === 'admin.key') {
    const message = `note: using the admin key from ${shownFolder(io, dataFolder(io, globals))} (can manage and read; cannot answer or approve)`
    io.err.write(`${paintErr('yellow', message)}\n`)
  }
  const server = openHttpRemote(target.url, target.key, hintsFor(target, shownFolder(io, dataFolder(io, globals))))
  return target.agent === null ? server : onlyAs(target.agent, server)
}

const LOGIN_HERE = "on the server's machine: `countersign login --as user_owner`"
const LOGIN_WITH_KEY = '`countersign login`, COUNTERSIGN_KEY or --api-key; an owner issues keys with `countersign key issue`'

function staleHint(url: string): string {
  const how = isLocal(url) ? `${LOGIN_HERE}; with a key: \`countersign login\`` : 'with another key: `countersign login`'
  return `the login that is stored for ${url} is not valid there (any more). Log in again, ${how}`
}

/** Browsers have no passkeys for an IP address. */
const siteAt = (url: string): string => (isLocal(url) ? url.replace(new URL(url).hostname, 'localhost') : url)

/** The remedy for a refused key depends on its source. */
function hintsFor({ url, source }: Target, folder: string): Record<string, string> {
  const signing = { PASSKEY_REQUIRED: `answer on the page, where your device signs: ${siteAt(url)}/inbox` }
  if (source === 'login') return { ...signing, UNAUTHENTICATED: staleHint(url) }
  if (source !== 'admin.key')
    return {
      ...signing,
      UNAUTHENTICATED: `${url} does not accept the key from ${source}; an owner issues another with \`countersign key issue\``,
    }
  return {
    UNAUTHENTICATED: `the admin.key in ${folder} is not that of the server at ${url}: COUNTERSIGN_DATA names the data folder of that server`,
    UNAUTHORIZED: 'the admin key cannot do this; log in as a person: `countersign login --as user_owner`',
  }
}
