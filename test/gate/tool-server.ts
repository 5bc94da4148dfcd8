// An MCP server for the tests of the gate, as a program: its tools write a line for each run into the file that it is given.
import { once } from 'node:events'
import { appendFileSync, existsSync } from 'node:fs'
import { inputRequired, ProtocolError, Server, type Tool } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'

const [file, variant = ''] = process.argv.slice(2)
const inputSchema = { type: 'object' } as const
const names = [
  'echo',
  'image',
  'big',
  'crash',
  'fail',
  'broken',
  'ask',
  'slow',
  'flood',
  'nonsense',
  'countersign_await',
  'twice',
  'twice',
  'есho',
]
/** A file beside the runs changes every definition while the program runs. */
const isChanged = (): boolean => variant === 'changed' || existsSync(`${file}.changed`)
/** Clients expect structured content of such tools. */
const shape = variant === 'shaped' ? { outputSchema: { type: 'object' as const, properties: { a: { type: 'number' as const } } } } : {}
const toolsNow = (): Tool[] => names.map((name) => ({ name, description: isChanged() ? `${name}, changed` : name, inputSchema, ...shape }))
const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] })

serveStdio(() => {
  const server = new Server(
    { name: 'tools', version: '1.0.0' },
    { capabilities: { tools: { listChanged: true }, resources: {}, prompts: {} } },
  )
  server.setRequestHandler('tools/list', () => ({ tools: toolsNow() }))
  server.setRequestHandler('resources/list', () => ({ resources: [{ uri: 'test://one', name: 'one' }] }))
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [] }))
  server.setRequestHandler('resources/read', ({ params }) => ({ contents: [{ uri: params.uri, text: 'a resource' }] }))
  server.setRequestHandler('prompts/list', () => ({ prompts: [{ name: 'hello' }] }))
  server.setRequestHandler('prompts/get', () => ({
    messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'hello' } }],
  }))
  server.setRequestHandler('tools/call', async ({ params: { name, arguments: args } }, { mcpReq }) => {
    if (name === 'ask' && !mcpReq.inputResponses)
      return inputRequired({
        inputRequests: {
          who: inputRequired.elicit({
            message: 'Which one?',
            requestedSchema: { type: 'object', properties: { one: { type: 'string' } } },
          }),
        },
        requestState: 'asked',
      })
    if (file)
      appendFileSync(file, `${JSON.stringify({ name, args, meta: Object.keys(mcpReq._meta ?? {}), env: Object.keys(process.env) })}\n`)
    if (name === 'ask') return text(`answered ${JSON.stringify(mcpReq.inputResponses)}`)
    if (name === 'image') return { content: [{ type: 'image' as const, data: 'aGk=', mimeType: 'image/png' }], _meta: { secret: 'x' } }
    if (name === 'big') return text('x'.repeat(1_100_000))
    if (name === 'crash') process.exit(1)
    if (name === 'fail') return { ...text('it failed'), isError: true }
    if (name === 'broken') throw new ProtocolError(-32_050, 'broken')
    if (name === 'nonsense') process.stdout.write('this is no JSON\n{"jsonrpc":"2.0","id":"never-asked","result":{}}\n')
    const { progressToken } = mcpReq._meta ?? {}
    if (name === 'flood' && progressToken !== undefined)
      for (let progress = 1; progress <= 5_000; progress++)
        void mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress } })
    if (name === 'slow' && args?.['until'] === 'cancelled') {
      await once(mcpReq.signal, 'abort')
      appendFileSync(file!, `${JSON.stringify({ name: 'cancelled', args, meta: [], env: [] })}\n`)
    } else if (name === 'slow') await new Promise((done) => setTimeout(done, 100))
    return text(`${name} ${JSON.stringify(args)}`)
  })
  return server
})
