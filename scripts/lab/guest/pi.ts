// Checks inside the emulated Raspberry Pi 3B: its own pin controller, bus and serial port. The host answers over the serial port, which is the
// daemon's as well, and says which levels the pins have and how warm the sensor is.
import { deepEqual, equal, ok } from 'node:assert/strict'
import { chownSync, readdirSync } from 'node:fs'
import { GROUP, guest, textOf, USER } from './harness.ts'

for (const name of readdirSync('/dev').filter((one) => /^(?:gpiochip|i2c-|ttyAMA0$)/.test(one))) chownSync(`/dev/${name}`, USER, GROUP)
const buses = readdirSync('/dev').filter((name) => name.startsWith('i2c-'))
const out = (offset: number, safe: 0 | 1): object => ({ direction: 'out', chip: '/dev/gpiochip0', offset, safe })
const lab = guest(
  {
    board: 'linux',
    model: textOf('/proc/device-tree/model').replaceAll('\0', ''),
    gpio: { '17': out(17, 0), '18': out(18, 1), '27': { direction: 'in', chip: '/dev/gpiochip0', offset: 27 } },
    i2c: Object.fromEntries(buses.map((name) => [name.slice(4), { path: `/dev/${name}`, '0x48': { name: 'temp' } }])),
    uart: { host: { path: '/dev/ttyAMA0' } },
    sensors: Object.fromEntries(buses.map((name) => [name, { i2c: [Number(name.slice(4)), '0x48'], chip: 'tmp105', unit: 'Cel' }])),
  },
  { policies: { default: { tools: ['hw.*', 'gpio.*', 'i2c.*', 'uart.*', 'sys.*', 'sensor.*'] } } },
)
await lab.start()
const session = await lab.session()
const { check } = lab

/** One line to the host, one line of so many characters back. */
async function host(message: string, chars: number): Promise<string> {
  const data = Buffer.from(`${message}\n`).toString('base64')
  const { data: back } = await session.result('uart.exchange', { port: 'host', data, len: chars + 1, timeout_ms: 30_000 })
  return Buffer.from(String(back), 'base64').toString().trim()
}
const pins = async (): Promise<number> => (Number(await host('pins', 10)) >>> 17) & 3

await check('uart.exchange reaches the host', async () => equal(await host('ping', 4), 'pong'))
await check('outputs are safe: the host reads the register of the pins', async () => equal(await pins(), 0b10))
await check('gpio.set moves the pins', async () => {
  await session.result('gpio.set', { line: 17, value: 1 })
  await session.result('gpio.set', { line: 18, value: 0 })
  equal(await pins(), 0b01)
})
await check('hw.gpio.list shows what is set', async () => {
  const { lines } = (await session.result('hw.gpio.list')) as { lines: { line: number; value: number }[] }
  deepEqual(
    lines.filter(({ line }) => line < 20).map(({ value }) => value),
    [1, 0],
  )
})
let sensor = ''
await check('i2c.scan finds the sensor', async () => {
  for (const name of buses) {
    const { addrs } = (await session.result('i2c.scan', { bus: Number(name.slice(4)) })) as { addrs: string[] }
    if (addrs.includes('0x48')) sensor = name
  }
  ok(sensor !== '')
  return sensor
})
await check('sensor.read returns the value that the host has set', async () => {
  for (const [milli, celsius] of [
    [25_500, 25.5],
    [-10_000, -10],
  ] as const) {
    equal(await host(`temp ${milli}`, 2), 'ok')
    equal((await session.result('sensor.read', { name: sensor }))['value'], celsius)
  }
  equal((await session.step('i2c.read', { bus: Number(sensor.slice(4)), addr: '0x20', len: 1 })).code, 'absent')
})
await check('sys.thermal agrees with the kernel', async () => {
  const { zones } = (await session.result('sys.thermal')) as { zones: { celsius: number }[] }
  ok(zones.length > 0)
  equal(zones[0]!.celsius, Number(textOf('/sys/class/thermal/thermal_zone0/temp')) / 1_000)
})
await check('a close makes the pins safe', async () => {
  await session.close()
  const next = await lab.session()
  const data = Buffer.from('pins\n').toString('base64')
  const { data: back } = await next.result('uart.exchange', { port: 'host', data, len: 11, timeout_ms: 30_000 })
  equal((Number(Buffer.from(String(back), 'base64').toString().trim()) >>> 17) & 3, 0b10)
})
await check('SIGTERM ends with 0', async () => equal(await lab.kill('SIGTERM'), 0))
await lab.end()
