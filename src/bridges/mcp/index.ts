// `/mcp`: our own MCP server over Streamable HTTP. An agent's key has the tools of its operations, any other key reads.
import type { MakeBridge } from '#bindings/http/mount.ts'
import type { ActorKind } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { mcpDoor, type CallAsActor } from './door.ts'

/** The server as this bridge needs it; `src/mcp` has it. */
export type ServedMcp = {
  fetch(caller: { readonly id: string; readonly kind: ActorKind; call: CallAsActor }, request: Request, body: unknown): Promise<Response>
  close(): Promise<void>
}

export const MCP_PATH = '/mcp'
/** RFC 9728: the path of a resource follows the well-known one. */
export const METADATA_PATH = `/.well-known/oauth-protected-resource${MCP_PATH}`

export type McpDoorOptions = {
  /** The libraries are loaded with the first request. */
  open(): Promise<ServedMcp>
  /** The public address of this server, if an issuer makes out tokens for it. */
  readonly origin: (() => string) | null
}

export function mcp({ open, origin }: McpDoorOptions): MakeBridge {
  let opened: Promise<ServedMcp> | undefined
  return mcpDoor<true>({
    path: MCP_PATH,
    bytesMax: limits.bodyBytesMax,
    metered: 'mcp',
    absent: `the MCP server is at ${MCP_PATH}`,
    ...(origin
      ? {
          resource: () => `${origin()}${MCP_PATH}`,
          challenge: () => `Bearer realm="countersign", resource_metadata="${origin()}${METADATA_PATH}"`,
        }
      : {}),
    find: (path) => (path === MCP_PATH ? true : null),
    admit: () => undefined,
    async serve({ actor, call }, request, body) {
      const served = await (opened ??= open())
      return served.fetch({ id: actor.id, kind: actor.kind, call }, request, body)
    },
    close: async () => (await opened)?.close(),
  })
}

/** RFC 9728: the issuer whose tokens this resource accepts. */
export const resourceMetadata = (origin: string, issuer: string): object => ({
  resource: `${origin}${MCP_PATH}`,
  resource_name: 'Countersign',
  authorization_servers: [issuer],
  bearer_methods_supported: ['header'],
})
