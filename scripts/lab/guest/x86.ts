// Checks inside the x86 guest: the daemon on gpio-sim, i2c-stub, a modelled i801 controller and two serial ports, each compared with the files of
// the kernel.
import { deepEqual, equal, ok } from 'node:assert/strict'
import { chownSync, readdirSync, writeFileSync } from 'node:fs'
import { GROUP, guest, textOf, sleep, USER } from './harness.ts'

const env = (name: string): string => process.env[name] ?? ''
const chip = `/dev/${env('SIM_CHIP')}`
const [stub, i801] = [env('STUB_BUS'), env('I801_BUS')]
for (const name of readdirSync('/dev').filter((file) => /^(?:gpiochip|i2c-|ttyS[12]$)/.test(file))) chownSync(`/dev/${name}`, USER, GROUP)

const out = (offset: number, more: object = {}): object => ({ direction: 'out', chip, offset, safe: 0, ...more })
const lab = guest(
  {
    board: 'linux',
    model: 'lab x86',
    gpio: {
      '5': out(5, { name: 'TAKEN' }),
      '17': out(17, { name: 'LED' }),
      '18': out(18, { name: 'HIGH', safe: 1 }),
      '20': { name: 'FREE', direction: 'in', chip, offset: 20 },
      '22': out(22, { name: 'VALVE_A' }),
      '23': out(23, { name: 'VALVE_B' }),
      '27': { name: 'BUTTON', direction: 'in', chip, offset: 27 },
      '40': { name: 'GONE', direction: 'out', chip: `/dev/${env('SIM2_CHIP')}`, offset: 0, safe: 0 },
    },
    interlocks: [{ never: { '22': 1, '23': 1 }, message: 'never both valves' }],
    i2c: {
      [stub]: {
        path: `/dev/i2c-${stub}`,
        '0x48': { name: 'temp' },
        '0x50': { name: 'dac', limits: { '0x10': { min: 0, max: 100, slew: 10 } } },
      },
      [i801]: { path: `/dev/i2c-${i801}` },
    },
    uart: { far: { path: '/dev/ttyS1' } },
    sensors: { temp: { i2c: [Number(stub), '0x48'], chip: 'lm75', unit: 'Cel' } },
  },
  { policies: { default: { tools: ['hw.*', 'gpio.*', 'i2c.*', 'uart.*', 'sys.*', 'sensor.*'] } } },
)
const sim = (line: number, what: string): string => `/sys/devices/platform/${env('SIM_DEV')}/${env('SIM_CHIP')}/sim_gpio${line}/${what}`
const level = (line: number): string => textOf(sim(line, 'value'))
const pull = (line: number, way: 'up' | 'down'): void => writeFileSync(sim(line, 'pull'), `pull-${way}`)

await lab.start()
let session = await lab.session()
const { check } = lab

await check('outputs are safe before the socket opens', async () => deepEqual([level(17), level(18), level(22)], ['0', '1', '0']))
await check('gpio.set is seen by the kernel', async () => {
  await session.result('gpio.set', { line: 'LED', value: 1 })
  equal(level(17), '1')
  await session.result('gpio.set', { line: 17, value: 0 })
  equal(level(17), '0')
})
await check('gpio.get follows the wire', async () => {
  for (const [way, value] of [
    ['up', 1],
    ['down', 0],
  ] as const) {
    pull(27, way)
    equal((await session.result('gpio.get', { line: 'BUTTON' }))['value'], value)
  }
})
await check('gpio.watch sees an edge', async () => {
  const watching = session.result('gpio.watch', { line: 27, edge: 'rising', timeout_ms: 20_000, max_events: 1 })
  await sleep(1_500)
  pull(27, 'up')
  const { events, timed_out } = (await watching) as { events: { edge: string }[]; timed_out: boolean }
  deepEqual([events.map(({ edge }) => edge), timed_out], [['rising'], false])
})
await check('gpio.pulse ends with the former value', async () => {
  const pulse = session.result('gpio.pulse', { line: 17, value: 1, ms: 3_000 })
  await sleep(1_500)
  equal(level(17), '1')
  await pulse
  equal(level(17), '0')
})
await check('gpio.mode makes a line an output, and a close makes it an input again', async () => {
  const other = await lab.session()
  await other.result('gpio.mode', { line: 20, direction: 'out' })
  await other.result('gpio.set', { line: 20, value: 1 })
  equal(level(20), '1')
  await other.result('gpio.set', { line: 17, value: 1 })
  await other.close()
  equal(level(17), '0')
  pull(20, 'up')
  equal((await session.result('gpio.get', { line: 20 }))['value'], 1)
  pull(20, 'down')
  equal((await session.result('gpio.get', { line: 20 }))['value'], 0)
})
await check('a line that the kernel holds is busy', async () =>
  equal((await session.step('gpio.set', { line: 'TAKEN', value: 0 })).code, 'busy'),
)
await check('an interlock holds across sessions', async () => {
  await session.result('gpio.set', { line: 22, value: 1 })
  const other = await lab.session()
  await other.step('gpio.set', { line: 23, value: 1 }).then(
    () => ok(false, 'accepted'),
    (error: { data?: { code?: string } }) => equal(error.data?.code, 'envelope'),
  )
  equal(level(23), '0')
  await other.close()
  await session.result('gpio.set', { line: 22, value: 0 })
})
await check('a chip that is taken away is absent', async () => {
  await session.result('gpio.set', { line: 'GONE', value: 1 })
  writeFileSync('/sys/kernel/config/gpio-sim/rig2/live', '0')
  equal((await session.step('gpio.set', { line: 'GONE', value: 0 })).code, 'absent')
})
await check('i2c.write and sensor.read agree with the driver of the kernel', async () => {
  const bus = Number(stub)
  await session.result('i2c.write', { bus, addr: '0x48', reg: 0, data: Buffer.of(0x19, 0x80).toString('base64') })
  equal((await session.result('sensor.read', { name: 'temp' }))['value'], 25.5)
  writeFileSync(`/sys/bus/i2c/devices/i2c-${stub}/new_device`, 'lm75 0x48')
  const [monitor] = readdirSync(`/sys/bus/i2c/devices/${stub}-0048/hwmon`)
  equal(textOf(`/sys/bus/i2c/devices/${stub}-0048/hwmon/${monitor}/temp1_input`), '25500')
  const { sensors } = (await session.result('sys.hwmon')) as { sensors: { chip: string; celsius?: number }[] }
  ok(sensors.some(({ chip: name, celsius }) => name === 'lm75' && celsius === 25.5))
  equal((await session.step('i2c.read', { bus, addr: 72, reg: 0, len: 2 })).code, 'busy', 'a driver holds it')
})
await check('i2c.read reads blocks, and an empty address is absent', async () => {
  const bus = Number(stub)
  const data = Buffer.from(Array.from({ length: 40 }, (_, i) => i + 1)).toString('base64')
  await session.result('i2c.write', { bus, addr: '0x50', reg: '0x40', data })
  equal((await session.result('i2c.read', { bus, addr: 0x50, reg: 0x40, len: 40 }))['data'], data)
  equal((await session.step('i2c.read', { bus, addr: '0x20', reg: 0, len: 1 })).code, 'absent')
})
await check('a limit and a slew hold on the chip', async () => {
  const write = (value: number): Promise<unknown> =>
    session.result('i2c.write', { bus: Number(stub), addr: '0x50', reg: '0x10', data: Buffer.of(value).toString('base64') })
  await write(10)
  await write(21).then(
    () => ok(false, 'accepted'),
    (error: { data?: { code?: string } }) => equal(error.data?.code, 'envelope'),
  )
  equal((await session.result('i2c.read', { bus: Number(stub), addr: '0x50', reg: '0x10', len: 1 }))['data'], 'Cg==')
})
await check('a modelled controller: scan and read', async () => {
  const bus = Number(i801)
  const { addrs } = (await session.result('i2c.scan', { bus })) as { addrs: string[] }
  ok(addrs.includes('0x50'), addrs.join())
  equal((await session.step('i2c.read', { bus, addr: '0x21', reg: 0, len: 1 })).code, 'absent')
  return { addrs, spd: (await session.result('i2c.read', { bus, addr: '0x50', reg: 2, len: 1 }))['data'] }
})
await check('uart.exchange reaches the far end', async () => {
  const sent = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
  const { data } = await session.result('uart.exchange', { port: 'far', data: sent.toString('base64'), len: 256, timeout_ms: 20_000 })
  deepEqual(Buffer.from(String(data), 'base64'), Buffer.from(sent.map((byte) => byte ^ 0xff)))
})
await check('sys.cpuinfo and sys.meminfo agree with the kernel', async () => {
  const { cores } = await session.result('sys.cpuinfo')
  equal(cores, textOf('/proc/cpuinfo').match(/^processor/gm)!.length)
  const { total_bytes } = await session.result('sys.meminfo')
  equal(total_bytes, Number(/^MemTotal:\s+(\d+)/m.exec(textOf('/proc/meminfo'))![1]) * 1_024)
})
await check('after kill -9 in a task, outputs are safe, no step is repeated, and the chain is complete', async () => {
  await session.result('gpio.set', { line: 17, value: 1 })
  await session.result('gpio.set', { line: 18, value: 0 })
  const steps = [
    { tool: 'gpio.pulse', args: { line: 22, value: 1, ms: 9_000 } },
    { tool: 'gpio.set', args: { line: 23, value: 1 } },
  ]
  await session.client.call('task.submit', { session_id: session.id, task: { intent: 'x', steps } })
  for (let i = 0; i < 100 && level(22) !== '1'; i++) await sleep(50)
  equal(level(22), '1')
  await lab.kill('SIGKILL')
  await lab.start()
  deepEqual([level(17), level(18), level(22), level(23)], ['0', '1', '0', '0'])
  session = await lab.session()
  const { tasks } = (await session.client.call('task.history', { session_id: session.id, limit: 1 })) as {
    tasks: { status: string; code: string; steps: { code?: string; skipped?: boolean }[] }[]
  }
  const [{ status, code, steps: shown }] = tasks as [(typeof tasks)[0]]
  deepEqual([status, code, shown[0]!.code, shown[1]!.skipped], ['FAILED', 'restart', 'unknown_outcome', true])
  const seqs = lab.events().map(({ seq }) => seq)
  deepEqual(
    seqs,
    seqs.map((_, i) => i + 1),
  )
})
await check('SIGTERM makes outputs safe and ends with 0', async () => {
  await session.result('gpio.set', { line: 17, value: 1 })
  equal(level(17), '1')
  equal(await lab.kill('SIGTERM'), 0)
  deepEqual([lab.events().at(-1)!['event'], lab.events().some(({ event }) => event === 'daemon.stop')], ['audit.checkpoint', true])
})
await lab.end()
