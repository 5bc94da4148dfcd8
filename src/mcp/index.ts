// Our MCP server on stdin and stdout, for the holder of one key.
import { randomBytes } from 'node:crypto'
import type { Readable } from 'node:stream'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { McpCaller } from './caller.ts'
import { offerOf, serverOf, type McpOptions } from './server.ts'
import { LineTransport } from './wire/line-transport.ts'

export type StdioOptions = Omit<McpOptions, 'key'> & {
  readonly caller: McpCaller
  readonly log: { debug(fields: object, message: string): void }
}

/** Resolves when the client has disconnected. */
export async function serveMcp(
  { caller, log, ...options }: StdioOptions,
  input: Readable,
  output: { write(text: string): unknown },
): Promise<void> {
  const offer = offerOf({ ...options, key: randomBytes(32) })
  const serving = serveStdio(({ era }) => serverOf(offer, era === 'modern', caller, () => caller), {
    transport: new LineTransport(input, output),
    onerror: (error) => log.debug({ error: error.message }, 'an MCP client sent an invalid message'),
  })
  await new Promise<void>((done) => input.once('end', done).once('close', done))
  await serving.close()
}
