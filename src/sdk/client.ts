// The client: `client.collaboration.task.create({...})`, with types from the operations themselves. Only types: no code
// of the server is loaded, and a new operation needs nothing here.
import { CountersignError } from './errors.ts'
import { httpTransport, type HttpTransportOptions } from './transport/http.ts'
import { createHxp, type Hxp } from './hxp.ts'
import type { Operations } from './operations.ts'
import type { BytesOptions, CallOptions, Downloaded, Followed, FollowOptions, Transport, UploadOptions } from './transport/transport.ts'

type ProtocolName = keyof Operations
type OfKind<P extends ProtocolName, K extends string> = Extract<Operations[P], { readonly kind: K }>
type NamesOfKind<K extends string> = { [P in ProtocolName]: `${P}/${OfKind<P, K>['name']}` }[ProtocolName]

export type CallName = NamesOfKind<'command' | 'query'>
export type StreamName = NamesOfKind<'stream'>
type Named<N extends string> = N extends `${infer P extends ProtocolName}/${infer M}` ? Extract<Operations[P], { readonly name: M }> : never

type InOf<Op> = Op extends { readonly input: infer I } ? I : never
type OutOf<Op> = Op extends { readonly output: infer O } ? O : never
/** Input and answer of an operation, by its full name. */
export type Input<N extends CallName | StreamName> = InOf<Named<N>>
export type Output<N extends CallName | StreamName> = OutOf<Named<N>>

type KeysOf<U> = U extends unknown ? keyof U : never
type ValueOf<U, K> = U extends unknown ? (K extends keyof U ? U[K] : never) : never
/** Every field of every member of a union, for code that reads whichever there are. A member can be assigned to it. */
export type AnyField<U> = { readonly [K in KeysOf<U>]?: ValueOf<U, K> }

/** An input whose fields are all optional can be omitted. */
type Method<Op> =
  object extends InOf<Op>
    ? (input?: InOf<Op>, options?: CallOptions) => Promise<OutOf<Op>>
    : (input: InOf<Op>, options?: CallOptions) => Promise<OutOf<Op>>

type NounOf<N extends string> = N extends `${infer Noun}.${string}` ? Noun : never
type VerbOf<N extends string> = N extends `${string}.${infer Verb}` ? Verb : never
type Nouns<Op extends { readonly name: string }> = {
  readonly [Noun in NounOf<Op['name']>]: {
    readonly [One in Extract<Op, { readonly name: `${Noun}.${string}` }> as VerbOf<One['name']>]: Method<One>
  }
}

export type Protocols = { readonly [P in ProtocolName]: Nouns<OfKind<P, 'command' | 'query'>> }

type Announced = 'checksum' | 'size'
export type Client = Protocols & {
  /** Asks people, and waits for their answers. */
  readonly hxp: Hxp
  /** Any command or query by its full name. */
  call<N extends CallName>(operation: N, input: Input<N>, options?: CallOptions): Promise<Output<N>>
  /** The items of a stream as they arrive, from the first or from a cursor on. It reconnects after lost connections and restarts. */
  follow<N extends StreamName>(operation: N, input: Input<N>, options?: FollowOptions): AsyncIterable<Followed<Output<N>>>
  /** Calls an operation that takes bytes; size and checksum are computed here and compared by the server. */
  upload<N extends CallName>(
    operation: N,
    input: Omit<Input<N>, Announced>,
    bytes: Blob | Uint8Array<ArrayBuffer>,
    options?: UploadOptions,
  ): Promise<Output<N>>
  /** The bytes that an operation names, compared with their checksum. */
  download<N extends CallName>(operation: N, input: Input<N>, options?: BytesOptions): Promise<Downloaded>
  close(): Promise<void>
}

export type ClientOptions = HttpTransportOptions | { readonly transport: Transport }

export function createClient(options: ClientOptions): Client {
  const transport = 'transport' in options ? options.transport : httpTransport(options)
  const parts: Record<string, unknown> = {
    call: transport.call,
    follow: transport.follow,
    upload: (operation: string, input: object, bytes: Blob | Uint8Array<ArrayBuffer>, more?: UploadOptions) =>
      carrier(transport.upload)(operation, input, bytes instanceof Blob ? bytes : new Blob([bytes]), more),
    download: (operation: string, input: object, more?: BytesOptions) => carrier(transport.download)(operation, input, more),
    close: transport.close,
    hxp: createHxp(transport),
  }
  return lazyProperties((protocol) =>
    Object.hasOwn(parts, protocol)
      ? parts[protocol]
      : lazyProperties((noun) =>
          lazyProperties(
            (verb) =>
              (input: object = {}, more?: CallOptions) =>
                transport.call(`${protocol}/${noun}.${verb}`, input, more),
          ),
        ),
  ) as Client
}

function carrier<T>(carries: T | undefined): T {
  if (carries) return carries
  throw new CountersignError({ code: 'UNSUPPORTED', status: null, message: 'bytes are carried over HTTP only', retryable: false })
}

/** An object that creates each property on first access and caches it. */
function lazyProperties(make: (name: string) => unknown): object {
  const properties = new Map<string, unknown>()
  return new Proxy(Object.create(null) as object, {
    get(_, name) {
      // `await` asks everything whether it is a promise, and tools ask for symbols.
      if (typeof name !== 'string' || name === 'then' || name === 'toJSON') return undefined
      if (!properties.has(name)) properties.set(name, make(name))
      return properties.get(name)
    },
  })
}

type Page = { readonly items: readonly unknown[]; readonly next_cursor: string | null }

/** Every item of a list, page by page: `for await (const task of each(client.collaboration.task.list, { state: 'blocked' }))`. */
export async function* each<I, P extends Page>(
  list: (input: I, options?: CallOptions) => Promise<P>,
  input: NonNullable<NoInfer<I>>,
  options?: CallOptions,
): AsyncIterable<P['items'][number]> {
  let cursor: string | null = null
  do {
    const page: P = await list(cursor === null ? input : Object.assign({}, input, { cursor }), options)
    yield* page.items as P['items'][number][]
    cursor = page.next_cursor
  } while (cursor !== null)
}

/** Sends the bytes of an artifact and commits them as its next version. */
export async function deliver(
  client: Pick<Client, 'upload' | 'call'>,
  {
    name,
    media_type,
    ...commit
  }: Omit<Input<'collaboration/artifact.commit'>, 'payload'> & { readonly name?: string; readonly media_type?: string },
  bytes: Blob | Uint8Array<ArrayBuffer>,
  options: UploadOptions = {},
): Promise<Output<'collaboration/artifact.commit'>> {
  const about = { task_id: commit.task_id, ...(name === undefined ? {} : { name }), ...(media_type === undefined ? {} : { media_type }) }
  const { uri, checksum, size } = await client.upload('collaboration/artifact.upload', about, bytes, options)
  const { signal } = options
  return client.call('collaboration/artifact.commit', { ...commit, payload: { kind: 'blob', uri, checksum, size } }, { signal })
}
