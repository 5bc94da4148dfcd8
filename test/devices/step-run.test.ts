// Runs of steps on a device.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { performStep, type Hardware } from '#devices/runner/step-run.ts'
import { stepId } from '#protocols/hardware/daemon/schema.ts'

const HOUR_MS = 3_600_000

/** Only an undo is run here: the device itself is never asked. */
const device: Hardware = {
  timeoutOf: () => 1_000,
  act: () => assert.fail('nothing acts'),
  codeOf: () => 'io',
  isCancelled: () => false,
  valueBefore: () => assert.fail('nothing is read'),
  makeSafe: () => undefined,
}

test('the latency of a step is the time that passed, even if the clock steps while it runs', async () => {
  for (const step of [HOUR_MS, -HOUR_MS]) {
    let now = Date.UTC(2026, 0, 1)
    const undo = (): void => {
      now += step
      for (const end = performance.now() + 5; performance.now() < end;);
    }
    const runs = {
      device,
      clock: { now: () => now, sleep: () => Promise.resolve() },
      log: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
      undos: new Map([[stepId('task_1', 0), undo]]),
      stuck: new Map(),
      amiss: () => null,
      taskOf: () => undefined,
    }
    const request = { task_id: 'task_1', index: 0, tool: 'gpio.set', args: {}, policy: 'default', session_id: 'session_1', undo: true }
    const { status, latency_ms } = await performStep(runs, request)
    assert.equal(status, 'SUCCESS')
    assert.ok((latency_ms as number) >= 5 && (latency_ms as number) < HOUR_MS, String(latency_ms))
  }
})
