// Events of hardware at the server, each with the kind of document that it is about.
import { factOf, type Events } from '#kernel/declare/facts.ts'
import { Device, DeviceEvent } from './schema.ts'

export const events = {
  'device.registered': Device,
  'device.revoked': Device,
  'event.recorded': DeviceEvent,
} satisfies Events
export const fact = factOf(events)
