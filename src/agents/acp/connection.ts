// An ACP agent as a child process. Its lines are the messages of one connection of the official SDK, which is loaded with the first agent.
import type { AnyMessage, ClientApp, ClientContext } from '@agentclientprotocol/sdk'
import { limits } from '#kernel/limits.ts'
import { startChild, type Child, type ChildEnd, type Command } from '../programs/child.ts'

export type Id = string | number
export type Connection = {
  readonly agent: ClientContext
  readonly child: Child
  readonly ended: Promise<ChildEnd>
  /** The process has exited: requests to it fail before its end is known. */
  isGone(): boolean
  /** A request of the agent that waits for our answer. */
  expectAnswer(id: Id): void
  /** Resolves when every expected answer was written. A cancel that overtakes an answer would let a late allow through. */
  answersWritten(): Promise<void>
  /** Closes the agent's input, so that it can store its session, and kills it after `withinMs`. */
  close(withinMs: number): Promise<ChildEnd>
}

export function openConnection(command: Command, app: ClientApp, note: (message: string) => void): Connection {
  let controller: ReadableStreamDefaultController<AnyMessage> | null = null
  let isOpen = true
  const readable = new ReadableStream<AnyMessage>({
    start(streamController) {
      controller = streamController
    },
  })
  function closeInput(): void {
    if (!isOpen) return
    isOpen = false
    controller?.close()
  }
  const child = startChild(command, {
    kind: 'lines',
    lineBytesMax: limits.acpMessageBytesMax,
    outputBytesMax: limits.acpOutputBytesMax,
    async hear(line) {
      const message = messageIn(line)
      if (message === null) return note('the agent printed a line that is not an ACP message; skipped it')
      if (isOpen) controller?.enqueue(message)
    },
    gone: closeInput,
  })
  const ended = child.ended.finally(closeInput)

  const expected = new Set<Id>()
  let written = Promise.withResolvers<void>()
  const writable = new WritableStream<AnyMessage>({
    write(message) {
      child.write(`${JSON.stringify(message)}\n`)
      if ('method' in message || message.id === null || !expected.delete(message.id) || expected.size > 0) return
      written.resolve()
      written = Promise.withResolvers()
    },
  })
  const { agent } = app.connect({ readable, writable })
  return {
    agent,
    child,
    ended,
    isGone: () => !isOpen,
    expectAnswer: (id) => void expected.add(id),
    answersWritten: () => (expected.size === 0 ? Promise.resolve() : Promise.race([written.promise, ended.then(() => undefined)])),
    async close(withinMs) {
      child.close()
      const late = setTimeout(() => child.stop(null, false, 0), withinMs)
      return ended.finally(() => clearTimeout(late))
    },
  }
}

const decoder = new TextDecoder('utf-8')
/** Checks only that a line is one JSON object, so no batch; the SDK checks its shape. */
function messageIn(line: Uint8Array): AnyMessage | null {
  try {
    const value: unknown = JSON.parse(decoder.decode(line))
    return typeof value === 'object' && value !== null && !Array.isArray(value) && 'jsonrpc' in value ? (value as AnyMessage) : null
  } catch {
    return null
  }
}
