// The state of one conversation with an ACP agent.
import type { Outcome, Plan, Port } from '../programs/conversation.ts'
import type { MailboxItem } from '../programs/lines.ts'
import type { createTimeLimit } from '../programs/time-limit.ts'
import type { Connection } from './connection.ts'
import type { Questions } from './questions.ts'
import type { ToolCalls } from './tool-calls.ts'
import type { WorkFolder } from './work-folder.ts'

export type Sdk = typeof import('@agentclientprotocol/sdk')
/** The capabilities that the agent declares. */
export type Abilities = {
  readonly name: string
  readonly canResume: boolean
  readonly canLoad: boolean
  readonly canClose: boolean
  readonly canSteer: boolean
}
export type Talk = {
  readonly sdk: Sdk
  readonly plan: Plan
  readonly port: Port
  readonly note: (message: string) => void
  readonly limit: ReturnType<typeof createTimeLimit>
  readonly calls: ToolCalls
  readonly folder: WorkFolder
  readonly closing: AbortController
  item: MailboxItem
  /** Answers of people that arrived: each raises the attempt. */
  resumed: number
  waiter: PromiseWithResolvers<void> | null
  outcome: Outcome | null
  /** A person stopped the run: the session ends here and continues with the answer. */
  isInterrupted: boolean
  connection: Connection | null
  session_id: string | null
  snapshot: string | null
  questions: Questions | null
  abilities: Abilities | null
  isPrompted: boolean
  /** The agent was asked to cancel this turn, which happens once. */
  isCancelled: boolean
  readonly amendments: string[]
  /** The agent's text of this turn. */
  text: string
  quietSince: number
  progress: string
}

/**
 * Waits while the task has an open question, so that the next call is made with the attempt of the answer. False: the run has ended, or this
 * process no longer works on it.
 */
export async function untilFree(talk: Talk): Promise<boolean> {
  while (!talk.closing.signal.aborted) {
    const { resumed } = talk
    const { run } = await talk.port.call('delegation/run.get', { run_id: talk.item.run.id })
    if (run.state !== 'blocked' || talk.resumed !== resumed) return run.state === 'running' || run.state === 'blocked'
    talk.waiter = Promise.withResolvers()
    await talk.waiter.promise
    talk.waiter = null
  }
  return false
}
