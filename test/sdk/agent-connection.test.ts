// An agent says in one line when it is connected, when it is not, and why its key is refused.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { serve } from 'countersign/agent'
import { openStage, until, type Stage } from '../support/as-processes/agents.ts'
import { root } from '../support/as-processes/cli.ts'

let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage.close())

/** The server behind a port that can be closed and opened again. */
async function relay(): Promise<{ readonly url: string; open(): Promise<void>; close(): Promise<void> }> {
  const port = Number(new URL(stage.server.url).port)
  const sockets = new Set<Socket>()
  let own = 0
  let server: Server | null = null
  const open = async (): Promise<void> => {
    server = createServer((socket) => {
      const other = connect(port, '127.0.0.1')
      for (const one of [socket, other]) sockets.add(one.on('error', () => undefined))
      socket.pipe(other).pipe(socket)
    }).listen(own, '127.0.0.1')
    await once(server, 'listening')
    own = (server.address() as AddressInfo).port
  }
  const close = async (): Promise<void> => {
    const closed = once(server!, 'close')
    server!.close()
    for (const socket of sockets) socket.destroy()
    await closed
  }
  await open()
  return { url: `http://127.0.0.1:${own}`, open, close }
}

test('it says that it is connected, that it is not, and that it is again, once each', async () => {
  const agent = await stage.agent()
  const { url, open, close } = await relay()
  await close()
  const lines: string[] = []
  const serving = serve(agent.id, () => undefined, { url, key: agent.key, waitMs: 5_000, graceMs: 100, log: (line) => lines.push(line) })
  await until(() => lines.length === 1, 'it is not connected')
  await open()
  await until(() => lines.length === 2, 'it is connected')
  await until(() => stage.server.kernel.stats().waiting > 0, 'it waits')
  await close()
  await until(() => lines.length === 3, 'it is cut off')
  await open()
  await until(() => lines.length === 4, 'it is connected again')
  await serving.stop()
  await close()
  assert.deepEqual(lines, [
    `${agent.id} cannot connect to ${url}: ECONNREFUSED; trying again`,
    `${agent.id} takes runs from ${url}`,
    lines[2],
    `${agent.id} is connected to ${url} again`,
  ])
  assert.match(lines[2]!, /^agent_\w+ cannot connect to http:\S+: .*; trying again$/)
})

test('a key that is refused is one sentence and exit code 1, without a stack trace', async () => {
  const [mine, other] = [await stage.agent(), await stage.agent()]
  const { key: person } = await stage.system('identity/key.issue', { subject: 'user_owner' })
  const run = (key: string): Promise<{ code: unknown; err: string; out: string }> => {
    const program = `import { serve } from '${join(root, 'src/sdk/agent/index.ts')}'\nserve('${mine.id}', () => undefined)`
    const env = { ...process.env, COUNTERSIGN_URL: stage.server.url, COUNTERSIGN_KEY: key }
    return new Promise((done) =>
      execFile(process.execPath, ['--input-type=module', '-e', program], { env }, (error, out, err) =>
        done({ code: error?.code, err, out }),
      ),
    )
  }
  assert.deepEqual(await run(other.key), { code: 1, out: '', err: `${mine.id} stopped: this key is ${other.id}'s, not ${mine.id}'s\n` })
  assert.deepEqual(await run(person as string), {
    code: 1,
    out: '',
    err: `${mine.id} stopped: this key is user_owner's, not ${mine.id}'s\n`,
  })
  const message = `${stage.server.url} refuses the key of ${mine.id}: it is not valid there; \`countersign key issue ${mine.id}\` issues another\n`
  assert.deepEqual(await run(`${mine.key.slice(0, -3)}xyz`), { code: 1, out: '', err: message })
})

test('a program that asks how serving ended hears it as well, and decides itself how to end', async () => {
  const [mine, other] = [await stage.agent(), await stage.agent()]
  const lines: string[] = []
  const { done } = serve(mine.id, () => undefined, { url: stage.server.url, key: other.key, log: (line) => lines.push(line) })
  await assert.rejects(done, { code: 'UNAUTHORIZED', message: `this key is ${other.id}'s, not ${mine.id}'s` })
  assert.equal(lines.length, 1)
  assert.notEqual(process.exitCode, 1)
})
