// Devices at the server: an agent registers one, and its owner answers for it.
import { Refusal } from '#kernel/declare/errors.ts'
import { administrator, anyone, forAgentsToo, heldBy, installationOwner, ownsProject, role, system } from '#kernel/declare/access.ts'
import { image } from '#kernel/declare/facts.ts'
import { limits } from '#kernel/limits.ts'
import { command, query } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf, readListed } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { Device, DeviceId, DeviceJwk, NamedDevice } from '../schema.ts'

const agent = forAgentsToo(
  heldBy(
    'an agent',
    role<unknown>('agent', (actor) => actor.kind === 'agent'),
  ),
)

const register = command({
  name: 'device.register',
  summary: 'Register a device with the key of an agent: the owner of the agent answers for it.',
  draft: 'ours: which person answers for a pin is one question to the record',
  input: t.Object({ device_id: DeviceId, name: Device.schema.properties.name, jwk: DeviceJwk }),
  output: t.Object({ device: Device.schema }),
  callers: [agent],
  requires: [],
  audit: 'device.registered',
  load: async (read, { device_id }) => ({ there: await read.raw(Device, device_id) }),
  decide({ there }, { device_id, name, jwk }, { actor, now }) {
    if (there && (there.agent_id !== actor.id || there.jwk.x !== jwk.x))
      throw new Refusal('CONFLICT', `there is a device ${device_id} already, of another agent or with another key`)
    if (there?.state === 'revoked')
      throw new Refusal('DEVICE_REVOKED', 'the device was revoked: it needs a new data folder, and with it a new id')
    const projects = actor.projects === 'all' ? [] : [...actor.projects.keys()]
    const project_id = there?.project_id ?? (projects.includes('project_default') ? 'project_default' : projects[0])
    if (project_id === undefined) throw new Refusal('PRECONDITION_FAILED', 'the agent is in no project: let it join one first')
    const device: Device = {
      id: device_id,
      name,
      jwk,
      agent_id: actor.id,
      project_id,
      state: 'active',
      registered_at: there?.registered_at ?? now,
      revoked_at: null,
    }
    if (there && there.name === name) return { facts: [], output: { device: there } }
    return {
      facts: [fact('device.registered', [image(Device, device)])],
      atMost: [
        {
          doc: Device,
          index: 'agent',
          prefix: [actor.id],
          max: limits.devicesPerAgentMax,
          message: `an agent registers at most ${limits.devicesPerAgentMax} devices`,
        },
      ],
      output: { device },
    }
  },
  example: {
    given: 'empty',
    as: 'devin',
    input: {
      device_id: 'dev_01M7GMWX16CYD5TMA0423FKEE9',
      name: 'Bench',
      jwk: { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' },
    },
  },
})

const get = query({
  name: 'device.get',
  summary: 'Fetch one device.',
  draft: 'ours: devices',
  input: t.Object({ device_id: NamedDevice }),
  output: t.Object({ device: Device.schema }),
  callers: [anyone],
  load: async (read, { device_id }) => ({ device: await read(Device, device_id) }),
  view: ({ device }) => ({ device }),
  example: { given: 'registered', as: 'alice', input: ({ device }) => ({ device_id: device.id }) },
})

const list = query({
  name: 'device.list',
  summary: 'List the devices that you may see.',
  draft: 'ours: devices',
  input: t.Object({ ...pageInput }),
  output: t.Object({ items: t.Array(Device.schema), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const prefixes = actor.projects === 'all' ? [[]] : [...actor.projects.keys()].map((id) => [id])
    return readListed(read, Device, await read.list(Device, 'project', prefixes, pageIn('device.list', input)))
  },
  view: ({ listed, items, isCut }, input) => pageOf('device.list', input, listed, items, isCut),
  example: { given: 'registered', as: 'alice', input: {} },
})

type Revoking = { readonly device: Device; readonly owner: string | null }
const deviceOwner = heldBy(
  'the person who answers for it',
  role<Revoking>('its owner', (actor, { owner }) => actor.kind === 'human' && actor.id === owner),
)
const projectOwner = heldBy(
  'an owner of the project',
  role<Revoking>('an owner of the project', (actor, { device }) => actor.kind === 'human' && ownsProject(actor, device.project_id)),
)

const revoke = command({
  name: 'device.revoke',
  summary: 'Revoke a device: its reports are no longer recorded.',
  draft: 'ours: devices',
  input: t.Object({ device_id: NamedDevice }),
  output: t.Object({ device: Device.schema }),
  callers: [system, administrator, installationOwner, projectOwner, deviceOwner],
  requires: [],
  audit: 'device.revoked',
  async load(read, { device_id }): Promise<Revoking> {
    const device = await read(Device, device_id)
    return { device, owner: (await read.subject(device.agent_id))?.owner ?? null }
  },
  decide({ device }, _, { now }) {
    if (device.state === 'revoked') return { facts: [], output: { device } }
    const next: Device = { ...device, state: 'revoked', revoked_at: now }
    return { facts: [fact('device.revoked', [image(Device, next)])], output: { device: next } }
  },
  example: { given: 'registered', as: 'alice', input: ({ device }) => ({ device_id: device.id }) },
})

export const deviceOperations = [register, get, list, revoke]
