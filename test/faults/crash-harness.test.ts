// Faults between two harnesses: either side is killed at each step, and connections are cut at each step of AMQP. Nothing is lost, nothing
// comes twice, and the order is kept.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { after, before, describe, test } from 'node:test'
import { createCallee, createCaller, type Submitted } from '#apps/harness.ts'
import { startAmqpProxy, steps, type Step } from '../support/harness/amqp-proxy.ts'
import { brokerFor, SLOW_START, type TestBroker } from '../support/harness/broker.ts'

const ROUNDS = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 50 : 1
const program = join(import.meta.dirname, '../support/harness/process.ts')

describe('two harnesses under faults', { timeout: 900_000 }, () => {
  let broker: TestBroker
  let folder: string
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'countersign-hcp-faults-'))
    broker = await brokerFor(folder, ['lab-a', 'lab-b'])
  }, SLOW_START)
  after(async () => {
    await broker?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  /** A process that is killed with each line of `deaths`, and started again. Resolves with the first line that begins with `end`. */
  function mortal(role: string, id: string, data: string, deaths: string[]) {
    const ended = Promise.withResolvers<string>()
    let child: ChildProcess
    let isOver = false
    const begin = (): void => {
      child = spawn(process.execPath, [program, role, id, broker.urlOf(id), data], { stdio: ['ignore', 'pipe', 'inherit'] })
      createInterface({ input: child.stdout! }).on('line', (line) => {
        if (line.startsWith(deaths[0] ?? '\n')) {
          deaths.shift()
          child.kill('SIGKILL')
        } else if (line.startsWith('done ')) ended.resolve(line.slice(5))
      })
      child.on('exit', (code) => {
        if (isOver) return
        if (code !== null) return ended.reject(new Error(`the ${role} ended with ${code}`))
        begin()
      })
    }
    begin()
    return {
      ended: ended.promise,
      left: deaths,
      async stop() {
        isOver = true
        const gone = once(child, 'exit')
        child.kill('SIGKILL')
        await gone
      },
    }
  }

  for (let round = 0; round < ROUNDS; round++)
    test(`either side is killed at each step (round ${round + 1})`, { timeout: 180_000 }, async (t) => {
      const data = (name: string): string => join(folder, `${name}-${round}`)
      const callee = mortal('callee', 'lab-b', data('b'), ['ready', 'asked', 'step 0', 'step 5', 'step 11'])
      const caller = mortal('caller', 'lab-a', data('a'), ['ready', 'submitted', 'accepted', 'event 4', 'event 9'])
      t.after(() => Promise.all([callee.stop(), caller.stop()]))
      const { outputs, seen, missing_sequences } = JSON.parse(await caller.ended) as {
        outputs: object
        seen: number[]
        missing_sequences: number[]
      }
      assert.deepEqual(caller.left, [])
      assert.deepEqual(outputs, { count: 12 })
      assert.deepEqual(missing_sequences, [])
      assert.deepEqual(
        seen,
        Array.from({ length: seen.length }, (_, i) => i + 1),
      )
      assert.ok(seen.length >= 1 + 1 + 24 + 1, `${seen.length} events`)
    })

  test('connections are cut at each step of AMQP, on either side', { timeout: 240_000 }, async (t) => {
    const port = Number(new URL(broker.urlOf('lab-a')).port)
    const proxies = { 'lab-a': await startAmqpProxy(port), 'lab-b': await startAmqpProxy(port) }
    const link = (id: 'lab-a' | 'lab-b') => ({
      id,
      url: `amqp://${id}:${id}@127.0.0.1:${proxies[id].port}/hcp`,
      data: join(folder, `cut-${id}`),
      reply: 'PT2S',
      gap: 'PT30S',
      log: 'silent' as const,
    })
    const go = Promise.withResolvers<void>()
    const callee = await createCallee({
      ...link('lab-b'),
      callers: { 'lab-a': {} },
      capabilities: [
        {
          declaration: { name: 'talk', version: '1.0.0', description: 'For a test.', safety: { requires_human_approval: false } },
          async run(session) {
            let lines = 0
            let isOver = false
            void go.promise.then(() => (isOver = true))
            for (; !isOver; lines++) {
              await session.log('info', `line ${lines}`)
              await sleep(20)
            }
            return { lines }
          },
        },
      ],
    })
    const caller = await createCaller(link('lab-a'))
    t.after(async () => {
      go.resolve()
      await Promise.allSettled([caller.stop(), callee.stop()])
      await Promise.all(Object.values(proxies).map((proxy) => proxy.close()))
    })
    const submitted = await caller.submit('lab-b', { capability: 'talk', intent: 'Talk.' })
    await submitted.accepted
    const others: Submitted[] = []
    for (let round = 0; round < (ROUNDS > 1 ? 10 : 1); round++)
      for (const step of Object.keys(steps) as Step[])
        for (const id of ['lab-a', 'lab-b'] as const) {
          const cut = proxies[id].cutAt(step)
          // Some steps are taken by new connections alone, and a caller publishes when it submits.
          if (step.startsWith('connection') || step.startsWith('queue') || step === 'basic.consume') proxies[id].cut()
          else if (id === 'lab-a' && (step === 'basic.publish' || step === 'its confirm'))
            others.push(await caller.submit('lab-b', { capability: 'nothing', intent: 'Nothing.' }))
          else if (id === 'lab-b' && (step === 'basic.deliver' || step === 'its acknowledgement'))
            others.push(await caller.submit('lab-b', { capability: 'nothing', intent: 'Nothing.' }))
          await cut
        }
    go.resolve()
    const { outputs } = await submitted.result
    const seen: number[] = []
    for await (const { sequence } of submitted.events()) seen.push(sequence)
    assert.deepEqual(
      seen,
      Array.from({ length: (outputs as { lines: number }).lines + 2 }, (_, i) => i + 1),
    )
    assert.deepEqual((await submitted.session()).missing_sequences, [])
    for (const other of others) await assert.rejects(other.result, { name: 'SessionEnded', code: 'capability_not_found' })
  })
})
