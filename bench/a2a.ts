// The cost of A2A: a message that becomes a task, in turn with `task.create` and `task.assign` by the same person. The server is a process
// of its own and commits both durably.
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCaller, enroll, startServer } from '#test/support/as-processes/server.ts'
import { median, ms, times, type Bench } from './report.ts'

const ROUNDS = 300
const RATIO_MAX = 1.3
const AGENT = 'agent_devin'

export const a2a: Bench = {
  name: 'a2a',
  message: `an A2A message to a task against task.create and task.assign, ${ROUNDS} times each`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-a2a-'))
    const server = await startServer(join(folder, 'data'))
    const { call, close } = createCaller(server.port)
    const agent = new Agent({ keepAlive: true })
    try {
      const { alice } = await enroll(server.port, server.adminKey)
      const did = async (operation: string, input: object): Promise<any> => {
        const { status, body } = await call(alice, operation, input)
        if (status !== 200) throw new Error(`${operation} answered ${status}: ${JSON.stringify(body)}`)
        return body
      }
      await did('delegation/agent.publish', { agent_id: AGENT, name: 'Devin', a2a: true })
      const direct = async (): Promise<void> => {
        const { task } = await did('collaboration/task.create', { spec: { goal: 'Fix the login bug' } })
        await did('collaboration/task.assign', { task_id: task.id, assignee: AGENT })
      }
      const took: { direct: number; message: number }[] = []
      for (let round = -ROUNDS / 10; round < ROUNDS; round++) {
        const spent = { direct: await timeOf(direct), message: await timeOf(() => sendMessage(server.port, agent, alice, `m${round}`)) }
        if (round >= 0) took.push(spent)
      }
      const ratio = median(took.map((spent) => spent.message)) / median(took.map((spent) => spent.direct))
      say(`${took.length} rounds`)
      return [
        { what: 'task.create and task.assign', value: ms(median(took.map((spent) => spent.direct))) },
        {
          what: 'an A2A message to its task',
          value: ms(median(took.map((spent) => spent.message))),
          more: times(ratio),
          goal: { message: `<= ${RATIO_MAX}x`, met: ratio <= RATIO_MAX },
        },
      ]
    } finally {
      close()
      agent.destroy()
      await server.end('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

async function timeOf(act: () => Promise<void>): Promise<number> {
  const began = performance.now()
  await act()
  return performance.now() - began
}

function sendMessage(port: number, agent: Agent, key: string, messageId: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/a2a+json', 'a2a-version': '1.0' }
  const sent = request({ agent, port, host: '127.0.0.1', method: 'POST', path: `/a2a/${AGENT}/message:send`, headers }, (answer) => {
    answer.resume()
    answer.on('end', () => (answer.statusCode === 200 ? resolve() : reject(new Error(`it answered ${answer.statusCode}`))))
  })
  sent.on('error', reject)
  const message = { messageId, role: 'ROLE_USER', parts: [{ text: 'Fix the login bug' }] }
  sent.end(JSON.stringify({ message, configuration: { returnImmediately: true } }))
  return promise
}
