// RemoteError: a failure of a remote agent, or a refusal by it. `isFatal`: the same call would fail again.
export class RemoteError extends Error {
  override name = 'RemoteError'
  readonly isFatal: boolean
  /** The A2A reason, such as TASK_NOT_FOUND. */
  readonly reason: string | null
  constructor(message: string, { isFatal = false, reason = null }: { readonly isFatal?: boolean; readonly reason?: string | null } = {}) {
    super(message)
    this.isFatal = isFatal
    this.reason = reason
  }
}
