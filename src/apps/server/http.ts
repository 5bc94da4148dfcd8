// The HTTP server of this process: its bindings, bridges, documents and page, with the answers of `/health` and `/ready`.
import { createHttp, type HttpServer } from '#bindings/http/index.ts'
import type { MakeBridge } from '#bindings/http/mount.ts'
import type { Documents } from '#bindings/http/public-documents.ts'
import type { CallMetrics } from '#bindings/shared/call-metrics.ts'
import type { Tls } from '#bindings/http/connections/tls.ts'
import type { UnsentAnswers } from '#bindings/shared/unsent-answers.ts'
import { a2a } from '#bridges/a2a/index.ts'
import { gates, type ServedGate } from '#bridges/gate/index.ts'
import { hcpArtifacts } from '#bridges/hcp/artifacts.ts'
import { hooks } from '#bridges/hooks/index.ts'
import { log as logBridge, verifyPage } from '#bridges/log/index.ts'
import { hlp } from '#bridges/hlp/index.ts'
import { hxp } from '#bridges/hxp/index.ts'
import { mcp, METADATA_PATH, resourceMetadata } from '#bridges/mcp/index.ts'
import { mailLinks } from '#bridges/mail-links/index.ts'
import type { Blobs } from '#kernel/ports/blobs.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { jwksOf } from '#workers/keys/key-ring.ts'
import { signDetached } from '#workers/keys/notary.ts'
import type { RecordState } from '#workers/upkeep/record-verifier.ts'
import type { Leases } from '#workers/leases.ts'
import type { WorkerState } from '#workers/worker.ts'
import type { RunningHarness } from './harness.ts'
import { realClock } from './clock.ts'
import { hostInUrl, isPublic, publicOrigin, type Config } from './settings/config.ts'
import type { MoveMark, Quiet } from './folder/move-mark.ts'
import type { Keys } from './folder/key-files.ts'
import type { Authenticator } from './identity/authenticator.ts'
import type { Storage } from './storage.ts'
import { configSchema } from '../config-schema.ts'
import type { ServedLog } from './record-log/open.ts'
import { version } from '../version.ts'
import { readPage, readVerifyPage } from './page-files.ts'
import type { Logger } from './log.ts'
import type { ServerOptions } from './server.ts'

/** Extra paths of streams: from a path to the stream operation. */
export const streamPaths = { '/v1/events': 'collaboration/audit.follow' } as const

type Parts = {
  readonly kernel: Kernel
  readonly log: Logger
  readonly installation: string
  states(): Readonly<Record<string, WorkerState>>
  readonly sessions: Authenticator
  readonly blobs: Blobs
  readonly keys: Keys
  readonly metrics: CallMetrics
  readonly unsent: UnsentAnswers
  readonly tls: Tls | undefined
  readonly storage: Storage
  readonly node: string
  readonly leases: Leases
  record(): RecordState
  readonly anchor: 'kept' | 'none'
  readonly harness: RunningHarness
  readonly recordLog: ServedLog | null
  readonly gates: readonly ServedGate[]
  /** The public address of this server. */
  origin(): string
  readonly quiet: Quiet | null
  readonly mark: MoveMark | null
  /** Whether a stop is about to begin. */
  isNear(): boolean
}

export function httpOf(parts: Parts, config: Config, options: ServerOptions): HttpServer {
  const { kernel, log, installation, sessions, blobs, keys, metrics, unsent, tls, record, harness, storage, node, leases } = parts
  const { states, isNear, anchor, quiet, mark } = parts
  const { clock = realClock, bounds } = options
  const started_at = timestampOf(clock.now())
  return createHttp({
    kernel,
    authenticate: sessions.authenticate,
    logins: sessions,
    log,
    version,
    hosts: [...config.hosts, ...(config.publicUrl === null ? [] : [new URL(config.publicUrl).hostname]), hostInUrl(config.host)],
    proxied: config.proxied,
    origin:
      !isPublic(config) || (config.publicUrl === null && config.port === 0 && !config.proxied)
        ? undefined
        : publicOrigin(config, config.port),
    tls,
    cors: { prefixes: ['/hxp'], origins: config.origins, anyOrigin: config.dev },
    live: {
      aliases: streamPaths,
      origins: config.origins,
      recheck: sessions.recheck,
      redeem: sessions.redeem,
    },
    bridges: [
      hxp(keys.server),
      hlp,
      hcpArtifacts(),
      mailLinks(),
      hooks(),
      gates(parts.gates),
      logBridge(parts.recordLog, config.logIsPublic),
      verifyPage(readVerifyPage(), config.logIsPublic),
      mcpOf(parts, config),
      a2a((text) => signDetached(keys.ring(), text), { isPublicOnly: !config.webhookPrivate }),
    ],
    page: readPage(config.web),
    bytes: { blobs, bytesMax: config.blobBytesMax },
    documents: documentsOf(parts, config),
    metrics,
    unsent,
    amiss: storage.amiss,
    unready: () => (isNear() ? 'stopping' : storage.isReachable() ? leases.amiss() : 'cut off from the database'),
    ...(bounds ? { bounds } : {}),
    health: () => ({
      installation,
      store: storage.kind,
      node,
      durability: storage.durability(),
      started_at,
      record: record(),
      'record.anchor': anchor,
      harness: harness.health(),
      log: parts.recordLog?.health() ?? null,
      workers: states(),
      ...(config.dev ? { mode: 'development' } : {}),
      ...(quiet ? { mode: 'read-only', reason: quiet.why } : {}),
      ...mark,
    }),
  })
}

function documentsOf({ keys, origin }: Parts, { issuer }: Config): Documents {
  return new Map([
    ['/.well-known/jwks.json', () => jwksOf(keys.ring())],
    ['/config.schema.json', () => configSchema],
    ...(issuer === null ? [] : [[METADATA_PATH, () => resourceMetadata(origin(), issuer.url)] as const]),
  ])
}

const mcpOf = ({ kernel, log, origin }: Parts, { issuer }: Config): MakeBridge =>
  mcp({
    origin: issuer === null ? null : origin,
    async open() {
      const { mcpOverHttp } = await import('#mcp/http.ts')
      return mcpOverHttp({ protocols: kernel.protocols, version, log })
    },
  })
