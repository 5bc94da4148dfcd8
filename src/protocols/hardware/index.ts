// Hardware at the server: devices that agents have registered, and the lines of their audit. The daemon's own part is daemon/index.ts.
import type { Protocol } from '#kernel/declare/operation.ts'
import { codes } from './codes.ts'
import { events } from './events.ts'
import { scenes } from './examples.ts'
import { deviceOperations } from './operations/device.ts'
import { eventOperations } from './operations/event.ts'

const operations = [...deviceOperations, ...eventOperations]
export type HardwareOperation = (typeof operations)[number]

export const hardware: Protocol = {
  name: 'hardware',
  title: 'HACP: Hardware Agent Capability Protocol, devices and their audit',
  version: '0.1.0',
  operations,
  events,
  codes,
  scenes,
}
