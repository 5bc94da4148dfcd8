// The port of a gate to Countersign: the operations that decide about a call. A gate obeys their answers and decides nothing itself.
export type CallState = 'proposed' | 'waiting' | 'approved' | 'begun' | 'ended' | 'denied' | 'expired' | 'cancelled'

/** A call as the operations of `gate` show it; a gate reads only these fields. */
export type CallView = {
  readonly call_id: string
  readonly state: CallState
  readonly decision?: string | null
  /** Who decided: `human` in an expired call is an approval that was not used in time. */
  readonly basis?: { readonly kind: string } | null
  readonly rule?: string | null
  readonly reason?: string | null
  /** The advice of the rule: what to do instead. */
  readonly instead?: string | null
  readonly request_id?: string | null
  readonly url?: string | null
  readonly expires_at?: string | null
  readonly digest: string
}

export type Proposal = {
  readonly server: string
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  readonly kind?: 'resource' | 'prompt'
  /** null: the tool has none, so there is nothing to pin. */
  readonly definition: Readonly<Record<string, unknown>> | null
  readonly hints?: Readonly<Record<string, unknown>>
  readonly task_id?: string
  readonly client?: { readonly name?: string; readonly version?: string; readonly session_id?: string; readonly sub_agent?: string }
  readonly redact?: readonly string[]
  /** An allowed call is begun in the same batch. */
  readonly begin?: boolean
}

export type ReportedTool = {
  readonly name: string
  readonly definition: Readonly<Record<string, unknown>>
  readonly hints?: Readonly<Record<string, unknown>>
}
export type ToolView = { readonly name: string; readonly listed: boolean; readonly definition?: Readonly<Record<string, unknown>> | null }

export type Outcome = 'succeeded' | 'failed' | 'unknown'

export type GatePort = {
  propose(proposal: Proposal, signal?: AbortSignal): Promise<CallView>
  /** Waits until at least one of these calls is decided, and returns the decided ones. */
  awaitAny(call_ids: readonly string[], wait_seconds: number, signal?: AbortSignal): Promise<readonly CallView[]>
  begin(call_id: string, digest: string): Promise<CallView>
  conclude(call_id: string, outcome: Outcome, size: number, hash: string | null): Promise<unknown>
  get(call_id: string): Promise<CallView>
  cancel(call_id: string): Promise<unknown>
  /** The client went away: the item stays, and its card says that no client waits. */
  leave(call_id: string): Promise<unknown>
  report(server: string, tools: readonly ReportedTool[]): Promise<readonly ToolView[]>
}

/** Calls one operation of the protocol by its full name. */
export type CallOperation = (operation: string, input: object, signal?: AbortSignal) => Promise<unknown>

export function gatePort(call: CallOperation): GatePort {
  const view = (operation: string, input: object, signal?: AbortSignal): Promise<CallView> =>
    call(`gate/${operation}`, input, signal) as Promise<CallView>
  return {
    propose: (proposal, signal) => view('call.propose', proposal, signal),
    awaitAny: async (call_ids, wait_seconds, signal) =>
      ((await call('gate/call.await_any', { call_ids, wait_seconds }, signal)) as { readonly items: readonly CallView[] }).items,
    begin: (call_id, digest) => view('call.begin', { call_id, digest }),
    conclude: (call_id, outcome, size, hash) => call('gate/call.conclude', { call_id, outcome, size, ...(hash === null ? {} : { hash }) }),
    get: (call_id) => view('call.get', { call_id }),
    cancel: (call_id) => call('gate/call.cancel', { call_id }),
    leave: (call_id) => call('gate/call.leave', { call_id }),
    report: async (server, tools) => ((await call('gate/tool.report', { server, tools })) as { readonly tools: readonly ToolView[] }).tools,
  }
}
