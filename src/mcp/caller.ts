// The caller of an MCP tool, and how its operations are called: in the server with the credential of each request, over stdio with one key.
import type { ActorKind } from '#kernel/declare/access.ts'

export type CallOptions = { readonly key?: string | undefined; readonly signal?: AbortSignal | undefined }

export type McpCaller = {
  readonly id: string
  readonly kind: ActorKind
  /** Rejects with a `CallFailure`. */
  call(operation: string, input: object, options?: CallOptions): Promise<unknown>
}

/** A refused or failed call. Without a status, Countersign could not be reached. */
export type CallFailure = {
  readonly code: string
  readonly message: string
  readonly status: number | undefined
  readonly field: string | undefined
}

export function failureIn(error: unknown): CallFailure {
  const { code, message, status, details } = (error ?? {}) as {
    code?: unknown
    message?: unknown
    status?: unknown
    details?: { field?: unknown }
  }
  return {
    code: typeof code === 'string' ? code : 'UNREACHABLE',
    message: typeof message === 'string' ? message : String(error),
    status: typeof status === 'number' && status > 0 ? status : undefined,
    field: typeof details?.field === 'string' ? details.field : undefined,
  }
}
