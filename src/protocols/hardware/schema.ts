// Documents of the server: devices that agents have registered, and the lines of their audit as facts of the record.
import { limits } from '#kernel/limits.ts'
import { doc, either, index, nullable, t, type Static } from '#kernel/declare/schema.ts'

export const DeviceId = t.String({ pattern: '^dev_[0-9A-Z]{26}$', maxLength: 40, description: 'the id that the device has given itself' })
/** A caller's name for a device. A malformed one is reported as not found. */
export const NamedDevice = t.String({ minLength: 1, maxLength: limits.idCharsMax, description: 'the id of a device' })
const Id = t.String({ maxLength: limits.idCharsMax })
const Timestamp = t.String({ maxLength: 40 })

/** The public key of a device (RFC 8037). */
export const DeviceJwk = t.Object({
  kty: t.Literal('OKP', { description: 'the kind of key: OKP' }),
  crv: t.Literal('Ed25519', { description: 'its curve: Ed25519' }),
  x: t.String({ pattern: '^[A-Za-z0-9_-]{43}$', description: 'the 32 bytes of a public key, in base64url' }),
  kid: t.Optional(t.String({ maxLength: limits.keyNameCharsMax, description: 'its thumbprint' })),
  alg: t.Optional(t.String({ maxLength: 20, description: 'EdDSA' })),
  use: t.Optional(t.String({ maxLength: 20, description: 'sig' })),
})

export const Device = doc(
  'hardware.device',
  t.Object({
    id: DeviceId,
    name: t.String({ minLength: 1, maxLength: limits.nameCharsMax, description: 'the name of the device, for people' }),
    jwk: DeviceJwk,
    agent_id: Id,
    project_id: Id,
    state: either('active', 'revoked'),
    registered_at: Timestamp,
    revoked_at: nullable(Timestamp),
  }),
  {
    scopeOf: (device) => device.project_id,
    visibleTo: (device, actor) => actor.kind !== 'agent' || actor.id === device.agent_id,
    indexes: {
      project: index((device) => [[device.project_id]]),
      agent: index((device) => [[device.agent_id]], 1),
    },
  },
)
export type Device = Static<typeof Device.schema>

/** The progress of a device's audit, in a separate document because it changes with every line. */
export const DeviceLog = doc(
  'hardware.device_log',
  t.Object({ id: DeviceId, project_id: Id, next_seq: t.Integer(), last_hash: t.String() }),
  { scopeOf: (log) => log.project_id, visibleTo: () => false },
)
export type DeviceLog = Static<typeof DeviceLog.schema>

/** A line as the device wrote it, byte for byte. */
export const DeviceEvent = doc(
  'hardware.event',
  t.Object({
    id: t.String(), // `${device_id}/${seq}`
    device_id: DeviceId,
    project_id: Id,
    agent_id: Id,
    seq: t.Integer(),
    line: t.String(),
    fact_id: Id,
    task_id: nullable(Id),
    root_task_id: nullable(Id),
  }),
  {
    noun: 'event of a device',
    scopeOf: (event) => event.project_id,
    taskOf: (event) => event.task_id,
    rootOf: (event) => event.root_task_id ?? event.task_id,
    visibleTo: (event, actor) => actor.kind !== 'agent' || actor.id === event.agent_id,
    indexes: { device: index((event) => [[event.device_id, event.seq]]) },
  },
)
export type DeviceEvent = Static<typeof DeviceEvent.schema>
export const eventId = (device_id: string, seq: number): string => `${device_id}/${seq}`
