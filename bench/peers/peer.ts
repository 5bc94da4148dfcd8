// One system that asks people, as the benchmark sees it: processes that can be killed and started again, and three calls.
export type Call = { readonly port: number; readonly request: Buffer }
export type Running = {
  /** All processes whose CPU time and memory count. */
  pids(): number[]
  /** A question; `id` is the benchmark's own, which a peer may replace by that of its answer. */
  ask(id: string): Call
  idOf(id: string, body: string): string
  /** Returns when the asker has the answer. */
  wait(id: string): Call
  /** The same after a restart, for a question of before. */
  again(id: string): Call
  answer(id: string): Call
  /** SIGKILL for all processes. */
  kill(): Promise<void>
  stop(): Promise<void>
}
export type Peer = {
  readonly name: string
  /** How it keeps what it answered. */
  readonly setting: string
  start(isAgain: boolean): Promise<Running>
}
