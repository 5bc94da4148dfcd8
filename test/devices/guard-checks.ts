// Checks of each guard of the hardware daemon, by name, against a daemon in this process. `--mistake` plants one in the source first: the check must
// find it. `node test/devices/guard-checks.ts --check <name> [--mistake <name>]`.
import assert from 'node:assert/strict'
import { linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { parseArgs } from 'node:util'
import { plant } from '../simulation/mistakes.ts'
import { clientAt, clientOn, type Any, type Client } from '../support/hardware/daemon.ts'
import { twins } from './twins.ts'

const { values } = parseArgs({ options: { check: { type: 'string' }, mistake: { type: 'string' } } })
if (values.mistake !== undefined) plant(twins.find(({ name }) => name === values.mistake)!)
// Only now: what is imported from here on is what was planted.
const { startDaemon } = await import('#apps/device/daemon.ts')
const { readDeviceConfig } = await import('#apps/device/settings.ts')
const { createLog } = await import('#apps/server/log.ts')
const { verifyAudit } = await import('#apps/cli/device/audit.ts')

const folder = mkdtempSync(join(tmpdir(), 'countersign-twins-'))
const tls = (name: string): string => join(import.meta.dirname, '../support/hardware/tls', name)
const set = (line: number | string, value: number): object => ({ tool: 'gpio.set', args: { line, value } })
const slow = { tool: 'i2c.read', args: { bus: 1, addr: '0x51', len: 1 } }
const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))
const read = (path: string): object => ({ tool: 'file.read', args: { path } })

for (const name of ['files/in', 'filesx', 'secret', 'plugins']) mkdirSync(join(folder, name), { recursive: true })
for (const name of ['filesx/a', 'secret/a', 'secret/b', 'files/a']) writeFileSync(join(folder, name), name)
symlinkSync(join(folder, 'secret'), join(folder, 'files/way'))
symlinkSync(join(folder, 'secret/b'), join(folder, 'files/link'))
linkSync(join(folder, 'secret/a'), join(folder, 'files/second'))
writeFileSync(
  join(folder, 'plugins/mic.js'),
  `export const tools = [{ name: 'com.acme.mic.record', risk_level: 2, personal: true, description: 'x', params_schema: { type: 'object' }, execute: () => ({}) }]`,
)
const usual = {
  tools: ['gpio.*', 'i2c.*', 'file.*', 'com.acme.*', 'proc.*'],
  read: [join(folder, 'files')],
  write: [join(folder, 'files/in')],
}
const policies = {
  policies: {
    default: { ...usual, queue: 2, concurrent: 1, rate: { 'gpio.get': { per_second: 0.01, burst: 2 } } },
    wide: { socket: 'wide.sock', ...usual },
    far: { subjects: ['CN=robin,O=Acme'], tools: ['gpio.*'] },
    narrow: { socket: 'narrow.sock', tools: ['gpio.get'] },
  },
}
writeFileSync(join(folder, 'policies.json'), JSON.stringify(policies))
const data = join(folder, 'data')
const args = ['--data', data, '--policies', join(folder, 'policies.json'), '--plugins', join(folder, 'plugins'), '--listen', '127.0.0.1:0']
const certificates = ['--tls-cert', tls('server.crt'), '--tls-key', tls('server.key'), '--tls-client-ca', tls('clients.pem')]
const daemon = await startDaemon(readDeviceConfig([...args, ...certificates], {}), {
  log: createLog('silent'),
  onFatal: (error) => assert.fail(String(error)),
})

type Hand = {
  readonly client: Client
  readonly session: string
  submit(steps: readonly object[], more?: object): Promise<Any>
  run(steps: readonly object[], more?: object): Promise<Any>
}
async function hand(policy = 'wide'): Promise<Hand> {
  const client = await clientAt(daemon.ready.sockets[policy]!)
  const session = await client.open()
  return {
    client,
    session,
    submit: (steps, more = {}) => client.call('task.submit', { session_id: session, task: { intent: 'x', steps }, ...more }),
    run: (steps, more) => client.run(session, steps, more),
  }
}
const wordOf = async (answer: Promise<Any>): Promise<string> => (await answer).error?.data.code ?? 'accepted'
const audited = (): Any[] =>
  readFileSync(join(data, 'audit.ndjson'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

const checks: Record<string, () => Promise<void>> = {
  async paths() {
    const { run, submit } = await hand()
    for (const name of ['way/b', 'link', 'second'])
      assert.equal((await run([read(join(folder, 'files', name))])).steps[0].code, 'denied', name)
    for (const path of [`${folder}/files/../secret/a`, `${folder}/filesx/a`, '/etc/passwd'])
      assert.equal(await wordOf(submit([read(path)])), 'path_denied', path)
    assert.equal(await wordOf(submit([{ tool: 'file.write', args: { path: `${folder}/files/a`, data: '' } }])), 'path_denied')
  },
  async cap() {
    const { submit } = await hand()
    assert.equal(await wordOf(submit([set('HEATER', 1)])), 'risk_cap')
  },
  async interlock() {
    const [one, two] = [await hand(), await hand()]
    // Both are accepted before either has acted: only the look at the act is left.
    const pulse = { tool: 'gpio.pulse', args: { line: 17, value: 1, ms: 400 } }
    const [first, second] = await Promise.all([
      one.submit([pulse, set(22, 1)]),
      two.submit([{ tool: 'gpio.pulse', args: { line: 18, value: 1, ms: 800 } }, set(23, 1)]),
    ])
    await one.client.finished(one.session, first.result.task_id)
    assert.equal((await two.client.finished(two.session, second.result.task_id)).steps[1].code, 'envelope')
  },
  async promise() {
    const [one, two] = [await hand(), await hand()]
    await one.run([set(22, 1)])
    await one.submit([{ tool: 'gpio.pulse', args: { line: 22, value: 0, ms: 1_500 } }])
    await sleep(300)
    assert.equal(await wordOf(two.submit([set(23, 1)])), 'envelope')
  },
  async limits() {
    const { submit, run } = await hand()
    const write = (value: number): object => ({
      tool: 'i2c.write',
      args: { bus: 1, addr: '0x50', reg: 16, data: Buffer.of(value).toString('base64') },
    })
    assert.equal(await wordOf(submit([write(11)])), 'envelope')
    assert.equal((await run(Array.from({ length: 10 }, (_, i) => write((i + 1) * 10)))).status, 'SUCCESS')
    assert.equal(await wordOf(submit([write(101)])), 'envelope')
  },
  async rates() {
    const { submit } = await hand('default')
    const outcomes: string[] = []
    for (let i = 0; i < 4; i++) outcomes.push(await wordOf(submit([{ tool: 'gpio.get', args: { line: 17 } }])))
    assert.equal(outcomes.at(-1), 'rate_limited')
  },
  async queue() {
    const { submit, client, session } = await hand('default')
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => wordOf(submit([slow]))))
    await client.ask('session.close', { session_id: session })
    assert.ok(outcomes.includes('queue_full'), outcomes.join())
  },
  async binding() {
    const [one, two] = [await hand(), await hand()]
    assert.equal((await two.client.call('tool.list', { session_id: one.session })).error?.code, -32000)
    const other = await clientAt(daemon.ready.sockets['narrow']!)
    one.client.close()
    await sleep(100)
    assert.equal((await other.call('tool.list', { session_id: one.session })).error?.code, -32000)
    other.close()
  },
  async locks() {
    const { client, session, submit } = await hand()
    const both = await Promise.all([submit([slow]), submit([slow])])
    for (const { result } of both) await client.finished(session, result.task_id)
    const own = audited().filter(({ session_id, event }) => session_id === session && event.startsWith('task.step.'))
    assert.deepEqual(
      own.map(({ event }) => event),
      ['task.step.start', 'task.step.finish', 'task.step.start', 'task.step.finish'],
    )
  },
  async allowlist() {
    const { submit } = await hand('narrow')
    assert.equal(await wordOf(submit([set(17, 1)])), 'not_allowed')
  },
  async programs() {
    const { submit } = await hand()
    assert.equal((await submit([{ tool: 'proc.exec', args: { program: 'date' } }])).error.code, -32002)
  },
  async personal() {
    const { submit } = await hand()
    assert.equal(await wordOf(submit([{ tool: 'com.acme.mic.record' }])), 'not_allowed')
  },
  async cancel() {
    const { client, session, submit } = await hand()
    const { result } = await submit([slow, set(17, 1)])
    await sleep(200)
    await client.ask('task.cancel', { session_id: session, task_id: result.task_id })
    const task = await client.finished(session, result.task_id)
    assert.deepEqual(
      [task.status, task.steps[0].status, task.steps[0].result, task.steps[1].skipped],
      ['CANCELLED', 'SUCCESS', { data: 'AA==' }, true],
    )
  },
  async safe() {
    const [one, two] = [await hand(), await hand()]
    await one.run([set(18, 1)])
    await one.client.ask('session.close', { session_id: one.session })
    assert.equal((await two.run([{ tool: 'gpio.get', args: { line: 27 } }])).steps[0].result.value, 0)
  },
  async twice() {
    const { submit } = await hand()
    const first = await submit([set(17, 1)], { idempotency_key: 'k' })
    assert.equal((await submit([set(17, 1)], { idempotency_key: 'k' })).result.task_id, first.result.task_id)
    assert.equal((await submit([set(17, 0)], { idempotency_key: 'k' })).error.code, -32008)
  },
  async chain() {
    const { run } = await hand()
    await run([set(17, 1), set(17, 0)])
    const lines = readFileSync(join(data, 'audit.ndjson'), 'utf8').trimEnd().split('\n')
    const file = join(folder, 'copy.ndjson')
    for (const changed of [
      lines.with(2, lines[2]!.replace('"v":1', '"v":2')),
      lines.toSpliced(2, 1),
      lines.with(2, lines[3]!).with(3, lines[2]!),
      lines.toSpliced(2, 0, lines[2]!),
    ]) {
      writeFileSync(file, `${changed.join('\n')}\n`)
      assert.equal((await verifyAudit(data, file)).ok, false)
    }
  },
  async certificates() {
    const { port } = new URL(`tls://${daemon.ready.listen}`)
    const answer = (name: string): Promise<Any> =>
      new Promise((done, failed) => {
        const more = { cert: readFileSync(tls(`${name}.crt`)), key: readFileSync(tls(`${name}.key`)), ca: readFileSync(tls('ca.crt')) }
        const socket = connectTls(
          { host: '127.0.0.1', port: Number(port), servername: 'localhost', ...more },
          () => void clientOn(socket).call('session.open').then(done),
        )
        socket.on('error', failed).on('close', () => failed(new Error('closed')))
      })
    assert.ok((await answer('robin')).result)
    assert.equal((await answer('stranger')).error.data.code, 'not_authenticated')
    for (const name of ['outsider', 'expired', 'revoked']) await assert.rejects(answer(name), name)
  },
  async denials() {
    const { submit } = await hand()
    await submit([set('HEATER', 1)])
    for (let i = 0; i < 50 && !audited().some(({ event }) => event === 'denied'); i++) await sleep(20)
    assert.ok(audited().some(({ event, code }) => event === 'denied' && code === 'risk_cap'))
  },
}

let code = 0
const names = values.check === undefined ? Object.keys(checks) : [values.check]
for (const name of names) {
  try {
    await checks[name]!()
  } catch (error) {
    code = 1
    console.log(`${name}: ${(error as Error).message}`)
  }
}
await daemon.stop()
rmSync(folder, { recursive: true, force: true })
process.exit(code)
