// The default profile of a Linux board: the GPIO chip, buses and serial ports that the kernel shows, every line an input.
import { readdirSync, readFileSync } from 'node:fs'

const LINES_MAX = 64

function devices(pattern: RegExp): string[] {
  try {
    return readdirSync('/dev')
      .filter((name) => pattern.test(name))
      .toSorted()
  } catch {
    return []
  }
}

function model(): string {
  try {
    return readFileSync('/proc/device-tree/model', 'utf8').replaceAll('\0', '').trim() || 'linux'
  } catch {
    return 'linux'
  }
}

/** Makes every line an input: the operator must say in a profile what is connected before anything is driven. */
export function foundProfile(): object {
  const [chip] = devices(/^gpiochip\d+$/)
  const lines =
    chip === undefined ? [] : Array.from({ length: LINES_MAX }, (_, offset) => [offset, { direction: 'in', chip: `/dev/${chip}`, offset }])
  return {
    board: 'linux',
    model: model(),
    gpio: Object.fromEntries(lines),
    i2c: Object.fromEntries(devices(/^i2c-\d+$/).map((name) => [name.slice('i2c-'.length), { path: `/dev/${name}` }])),
    uart: Object.fromEntries(devices(/^(?:ttyAMA|ttyS|ttyUSB|serial)\d+$/).map((name) => [name, { path: `/dev/${name}` }])),
  }
}
