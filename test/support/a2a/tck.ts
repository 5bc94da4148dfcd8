// A server for the A2A compatibility kit: `node test/support/a2a/tck.ts [port]`. It prints the address for --sut-host. The kit sends no
// credential, so a proxy in front of the server adds the key of a person.
import { createServer, request } from 'node:http'
import { openStage } from '#test/support/as-processes/agents.ts'
import { approveAll, serveSteered } from './steered-agent.ts'

// The kit's receivers of push notifications are on this machine.
const stage = await openStage(['--webhook-private', 'on'])
const agent = await stage.agent('tck')
await stage.system('delegation/agent.publish', { agent_id: agent.id, name: 'tck', concurrency: 32, a2a: true })
const { key } = await stage.system('identity/key.issue', { subject: 'user_owner' })
const serving = serveSteered(stage, agent)
const rest = approveAll(stage)

const proxy = createServer((asked, answer) => {
  const headers = { ...asked.headers, authorization: `Bearer ${key}` }
  const sent = request({ host: '127.0.0.1', port: stage.server.port, method: asked.method, path: asked.url, headers }, (reply) => {
    answer.writeHead(reply.statusCode!, reply.headers)
    reply.pipe(answer)
  })
  sent.on('error', () => answer.destroy())
  asked.pipe(sent)
  answer.on('close', () => sent.destroy())
})
proxy.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => {
  const { port } = proxy.address() as { port: number }
  console.log(`http://127.0.0.1:${port}/a2a/${agent.id}`)
})
process.once('SIGTERM', () => void end())
process.once('SIGINT', () => void end())
async function end(): Promise<void> {
  rest()
  proxy.close()
  proxy.closeAllConnections()
  await serving.stop()
  await stage.close()
}
