// Tools of a real daemon as capabilities of a server: what is listed, what needs a grant, what comes back.
import { deepEqual, equal, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { hacpSource } from '#capabilities/hacp.ts'
import { CapabilityFailure } from '#capabilities/source.ts'
import { realClock } from '#apps/server/clock.ts'
import type { CapabilityManifest } from '#protocols/delegation/capabilities/manifest.ts'
import { startDaemon } from '#test/support/hardware/daemon.ts'

const quiet = { debug() {}, info() {}, warn() {}, error() {} }

test('a daemon offers its tools, those of risk 2 with a permission, and runs them within its own policy', async () => {
  const daemon = await startDaemon()
  const source = hacpSource({ name: 'bench', projects: ['project_default'], socket: daemon.ready.socket }, '1.0.0', realClock, quiet)
  try {
    const offered = await new Promise<readonly CapabilityManifest[]>((done) => source.start(done))
    const named = (id: string): CapabilityManifest => offered.find(({ capability_id }) => capability_id === id)!
    deepEqual(named('cap:gpio.set').required_permissions, ['hardware:gpio.set'])
    deepEqual(named('cap:gpio.get').required_permissions, [])
    const { signal } = new AbortController()
    const ref = (capability_id: string): { capability_id: string; version: string } => ({ capability_id, version: '1.0.0' })
    let count = 0
    const invoke = (id: string, input: object): Promise<unknown> =>
      source.invoke(ref(id), input, signal, { run_id: 'run_1', invocation_id: `inv_${++count}` })
    deepEqual(await invoke('cap:gpio.set', { line: 17, value: 1 }), { line: 17, value: 1 })
    await rejects(invoke('cap:gpio.set', { line: 'HEATER', value: 1 }), CapabilityFailure)
    await rejects(invoke('cap:i2c.read', { bus: 1, addr: 9, len: 1 }), /absent/)
    const ofRun = daemon.lines().filter(({ correlation_id }) => correlation_id === 'run_1')
    deepEqual(
      ofRun.map(({ event, status }) => [event, status]),
      [
        ['task.submit', undefined],
        ['task.step.start', undefined],
        ['task.step.finish', 'SUCCESS'],
        ['task.finish', 'SUCCESS'],
        ['task.submit', undefined],
        ['task.step.start', undefined],
        ['task.step.finish', 'FAILED'],
        ['task.finish', 'FAILED'],
      ],
    )
    equal(daemon.lines().find((line) => line.event === 'session.open').client_name, 'countersign-server')
  } finally {
    await source.stop()
    await daemon.end()
  }
})
