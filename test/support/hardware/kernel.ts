// A kernel with the daemon's operations on any store, an in-memory board and tools that succeed immediately. The laws of single operations
// run on it.
import { portsOf } from '#apps/device/daemon.ts'
import { createDevice } from '#devices/device.ts'
import { readProfile } from '#devices/profile.ts'
import { simulatedBoard } from '#devices/simulated/index.ts'
import { simulatedProfile } from '#devices/simulated/profile.ts'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import type { Protocol, Refs, Step } from '#kernel/declare/operation.ts'
import { createKernel } from '#kernel/kernel.ts'
import type { Store } from '#kernel/log/store.ts'
import { daemonProtocol } from '#protocols/hardware/daemon/index.ts'
import { principalOf } from '#protocols/hardware/daemon/ports.ts'
import { policyDefaults } from '#protocols/hardware/daemon/policy.ts'
import { seededEntropy, START_MS } from '../in-process/world.ts'

export type DaemonKernel = {
  readonly store: Store
  call(as: string, operation: string, input: object, key?: string): Promise<any>
  play(steps: readonly Step[]): Promise<Refs>
  close(): Promise<void>
}

const policies = ['default', 'other'].map((name) => ({ ...policyDefaults, name, tools: ['gpio.*', 'i2c.*', 'hw.*'] }))
const cast: Readonly<Record<string, Actor>> = {
  system: SYSTEM,
  client: { id: principalOf('default', null), kind: 'agent', projects: 'all' },
  stranger: { id: principalOf('other', null), kind: 'agent', projects: 'all' },
}

function protocolOf(): Protocol {
  const options = { device_id: 'dev', dataFolder: '/', startedAt: 0, programs: new Map(), plugins: [], policies }
  const device = createDevice({ board: simulatedBoard(readProfile(simulatedProfile)), ...options })
  const named = policies.map((policy) => ({ policy, socket: null, group: null, subjects: [] }))
  const runner = { holderOf: () => null } as unknown as Parameters<typeof portsOf>[0]['runner']
  const keys = { verify: () => Promise.resolve({ ok: false as const, message: 'there are no keys here' }) }
  return daemonProtocol(portsOf({ device_id: 'dev', device, policies: named, runner, keys, isLinked: () => false }))
}

export function daemonKernel(store: Store): DaemonKernel {
  let now = START_MS
  const kernel = createKernel({
    store,
    protocols: [protocolOf()],
    contracts: [],
    directory: () => Promise.resolve(null),
    perform: (_, __, conclude) => conclude({ status: 'SUCCESS', result: {}, latency_ms: 1 }),
    now: () => ++now,
    entropy: seededEntropy(),
    asksPerMinute: null,
    checksAnswers: true,
  })
  const call: DaemonKernel['call'] = (as, operation, input, key) =>
    kernel.call(`hardware/${operation.replace('hardware/', '')}`, input, cast[as]!, key === undefined ? {} : { key })
  return {
    store,
    call,
    async play(steps) {
      let refs: Refs = {}
      for (const step of steps) {
        if (!('call' in step)) throw new Error('a scene of the daemon consists of calls')
        const input = (typeof step.input === 'function' ? step.input(refs) : step.input) as object
        refs = { ...refs, ...(await call(step.as, step.call, input)) }
      }
      return refs
    },
    close: () => store.close(),
  }
}
daemonKernel.protocol = protocolOf()
