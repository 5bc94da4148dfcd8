// The stdio transport of our MCP servers. Lines pass the strict decoder: a repeated key, deep nesting or a line beyond the bound is refused with
// its reason and reaches no tool.
import type { Readable } from 'node:stream'
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/server'
import { decodeText, isObject } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'

type Output = { write(text: string): unknown }

export class LineTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: Transport['onmessage']
  readonly #input: Readable
  readonly #output: Output
  #rest: Buffer[] = []
  #restBytes = 0
  #isTooLong = false

  constructor(input: Readable, output: Output) {
    this.#input = input
    this.#output = output
  }

  start(): Promise<void> {
    this.#input.on('data', (part: Buffer) => this.#receive(part))
    this.#input.once('end', () => void this.close())
    this.#input.once('close', () => void this.close())
    return Promise.resolve()
  }

  #receive(part: Buffer): void {
    for (let from = 0; from < part.length;) {
      const end = part.indexOf(10, from)
      const piece = part.subarray(from, end === -1 ? part.length : end)
      this.#restBytes += piece.length
      // The rest of an overlong line is read and dropped.
      if (this.#restBytes > limits.mcpLineBytesMax) this.#isTooLong = true
      if (this.#isTooLong) this.#rest = []
      else this.#rest.push(piece)
      if (end === -1) return
      this.#handleLine()
      from = end + 1
    }
  }

  #handleLine(): void {
    const line = Buffer.concat(this.#rest).toString().trim()
    const wasTooLong = this.#isTooLong
    this.#rest = []
    this.#restBytes = 0
    this.#isTooLong = false
    if (wasTooLong) return this.#refuse(null, `a line has at most ${limits.mcpLineBytesMax} bytes`)
    if (line === '') return
    try {
      this.onmessage?.(decodeText(line) as JSONRPCMessage)
    } catch (error) {
      this.#refuse(idIn(line), (error as Error).message.replace('the body', 'the message'))
    }
  }

  #refuse(id: string | number | null, message: string): void {
    this.onerror?.(new Error(message))
    this.#output.write(`${JSON.stringify({ jsonrpc: '2.0', id, error: { code: id === null ? -32_700 : -32_600, message } })}\n`)
  }

  send(message: JSONRPCMessage): Promise<void> {
    this.#output.write(`${JSON.stringify(withoutTaskContent(message))}\n`)
    return Promise.resolve()
  }

  close(): Promise<void> {
    const { onclose } = this
    delete this.onclose
    onclose?.()
    return Promise.resolve()
  }
}

function idIn(line: string): string | number | null {
  try {
    const { id } = JSON.parse(line) as { id?: unknown }
    return typeof id === 'string' || typeof id === 'number' ? id : null
  } catch {
    return null
  }
}

/** The library adds content to every answer to a call; the handle of a task must have none. */
export function withoutTaskContent<M>(message: M): M {
  const { result } = message as { result?: unknown }
  if (!isObject(result) || result['resultType'] !== 'task') return message
  const { content: _, ...handle } = result
  return { ...message, result: handle }
}
