// What commands call: a server over HTTP, or a folder that is read without one.
import { protocols } from '#protocols/index.ts'
import type { Hxp } from '#sdk/hxp.ts'
import type { Downloaded, Progress } from '#sdk/transport.ts'
import { CliError, exits } from './exits.ts'
import { isThere, openServer, unreachable } from './http.ts'
import { openFolder } from './offline.ts'
import { ordered, outputsOf } from './order.ts'
import { dataFolder, targetOf, type Target } from './settings.ts'
import type { Globals } from './spec.ts'
import type { Io, Paint } from './terminal.ts'

export type Answer = Readonly<Record<string, unknown>>
export type Followed = { readonly cursor: string; readonly item: Answer }
export type RemoteOptions = { readonly key?: string; readonly timeoutMs?: number; readonly signal?: AbortSignal }
export type Remote = {
  /** The server's address or the folder's path. */
  readonly where: string
  readonly isOffline: boolean
  // oxlint-disable-next-line typescript/no-explicit-any -- the answer of whichever operation was called; its schema describes it
  call(operation: string, input: object, options?: RemoteOptions): Promise<any>
  /** Goes on after a cut, from where it was; ends when the signal aborts. */
  follow(
    operation: string,
    input: object,
    options: { readonly after: string | null; readonly signal: AbortSignal; readonly onOpen?: () => void },
  ): AsyncIterable<Followed>
  upload(operation: string, input: object, bytes: Blob, onProgress: Progress): Promise<Answer>
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
    call: async (operation, input, options) => ordered(await remote.call(operation, input, options), outputs.get(operation)),
  }
}

async function openAny(io: Io, globals: Globals, paintErr: Paint): Promise<Remote> {
  if (globals.data !== undefined) return openFolder(dataFolder(io, globals))
  const target = await targetOf(io, globals)
  if (target.key === null) {
    if (!(await isThere(target.url))) throw unreachable(target.url, 'nobody answers there')
    throw new CliError(
      exits.unauthenticated,
      'UNAUTHENTICATED',
      `there is no key for ${target.url}`,
      'store one with `countersign login`, set COUNTERSIGN_KEY, or give --api-key; the administrator issues keys with `countersign key issue`',
    )
  }
  if (target.source === 'admin.key') {
    const words = `note: using the administrator's key in ${dataFolder(io, globals)}, which administers and reads but decides nothing`
    io.err.write(`${paintErr('yellow', words)}\n`)
  }
  return openServer(target.url, target.key, hintsFor(target, dataFolder(io, globals)))
}

const ISSUED = '`countersign key issue` issues another; the administrator may do that'

/** What to do about a key that is refused depends on where it came from. */
function hintsFor({ url, source }: Target, folder: string): Record<string, string> {
  if (source === 'login')
    return { UNAUTHENTICATED: `the key that is stored for ${url} is not valid any more: ${ISSUED}, \`countersign login\` stores it` }
  if (source !== 'admin.key') return { UNAUTHENTICATED: `${source} is no valid key at ${url}: ${ISSUED}` }
  return {
    UNAUTHENTICATED: `the admin.key in ${folder} is not that of ${url}: COUNTERSIGN_DATA names the folder of that server`,
    UNAUTHORIZED:
      'the administrator decides nothing: be somebody first, with `countersign key issue user_owner --pick key | countersign login`',
  }
}
