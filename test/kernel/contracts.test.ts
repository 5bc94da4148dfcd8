// Contracts: one fact leads to the next within a batch.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Line } from '#kernel/log/hash-chain.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { factOf, image } from '#kernel/declare/facts.ts'
import { anyone, human, system, type Actor } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import { command, rule, type Contract, type Protocol } from '#kernel/declare/operation.ts'
import { doc, t, type Static } from '#kernel/declare/schema.ts'
import { memoryStore } from '#stores/memory.ts'
import { seededEntropy, settled, stateHash } from '../support/in-process/world.ts'

const Box = doc('contracttest.box', t.Object({ id: t.String(), steps: t.Array(t.String()) }), { scopeOf: () => 'project_a' })
type Box = Static<typeof Box.schema>
const events = { opened: Box, pushed: Box, sealed: Box, signed: Box, filled: Box }
const fact = factOf(events)
const output = t.Object({ box: Box.schema })
const example = { given: 'empty', as: 'alice', input: { id: 'one' } }

/** An operation that appends its own name to the box. */
const step = (name: 'open' | 'push' | 'seal' | 'sign' | 'fill', callers: (typeof anyone)[], max = Infinity) =>
  command({
    name,
    summary: name,
    draft: 'ours: a toy',
    input: t.Object({ id: t.String() }),
    output,
    callers,
    requires: [
      rule<{ box: Box | null }>(
        'BOX_FULL',
        `a box takes ${max}`,
        ({ box }) => (box?.steps.length ?? 0) < max,
        `the box is full: it takes ${max}`,
      ),
    ],
    audit: `${name}ed`,
    load: async (read, { id }) => ({ box: await read.maybe(Box, id) }),
    decide({ box }, { id }, { actor }) {
      const next = { id, steps: [...(box?.steps ?? []), `${name} by ${actor.id}`] }
      return { facts: [fact(`${name}ed`, [image(Box, next)])], output: { box: next } }
    },
    example,
  })

const toy = (name: string, operations: Protocol['operations']): Protocol => ({
  name,
  title: name,
  version: '1',
  operations,
  events,
  codes: { BOX_FULL: 'conflict' },
  scenes: { empty: [] },
})
const first = toy('first', [step('open', [human, system]), step('push', [anyone])])
const second = toy('second', [step('seal', [system]), step('sign', [human]), step('fill', [anyone], 1)])

const contract = (on: string, call: string, as: Contract['as'], input: Contract['input'] = idOnly): Contract => ({
  name: `${on} leads to ${call}`,
  on,
  call,
  as,
  input,
})
function idOnly({ subject }: { subject: Box }): Promise<object> {
  return Promise.resolve({ id: subject.id })
}

function kernelWith(contracts: Contract[], opening = first): Kernel {
  let now = Date.UTC(2026, 0, 1)
  return createKernel({
    store: memoryStore(),
    protocols: [opening, second],
    contracts,
    directory: () => Promise.resolve(null),
    now: () => ++now,
    entropy: seededEntropy(),
    asksPerMinute: null,
  })
}
const inProject = new Map([['project_a', 'member' as const]])
const alice: Actor = { id: 'user_alice', kind: 'human', projects: inProject }
const devin: Actor = { id: 'agent_devin', kind: 'agent', projects: inProject }

async function linesIn({ store }: Kernel): Promise<Line[]> {
  await settled()
  return (await store.facts({ by: 'position' }, { after: null, limit: 1_000 })).map(({ line }) => JSON.parse(line) as Line)
}

test('a consequence of the system is recorded for the caller, with the contract as its basis and its cause by number', async () => {
  const kernel = kernelWith([contract('first/opened', 'second/seal', 'system')])
  const { box } = await kernel.call('first/open', { id: 'one' }, alice)
  assert.deepEqual(box.steps, ['open by user_alice', 'seal by agent_system'], 'the answer shows the box as the whole batch leaves it')
  const shown = (await linesIn(kernel)).map(({ action, actor, behalf, basis, cause, seq }) => ({
    action,
    actor,
    behalf,
    basis,
    cause,
    seq,
  }))
  assert.deepEqual(shown, [
    { action: 'first/opened', actor: 'user_alice', behalf: null, basis: { kind: 'role', id: 'human' }, cause: null, seq: 1 },
    {
      action: 'second/sealed',
      actor: 'agent_system',
      behalf: 'user_alice',
      basis: { kind: 'contract', id: 'first/opened leads to second/seal' },
      cause: 1,
      seq: 2,
    },
  ])
  assert.equal(kernel.store.stats().batches, 1)
})

test('a consequence as the caller is authorized again, as the caller', async () => {
  const kernel = kernelWith([contract('first/opened', 'second/sign', 'actor')])
  const { box } = await kernel.call('first/open', { id: 'one' }, alice)
  assert.deepEqual(box.steps, ['open by user_alice', 'sign by user_alice'])
  const [, signed] = await linesIn(kernel)
  assert.deepEqual([signed!.actor, signed!.behalf, signed!.basis], ['user_alice', null, { kind: 'role', id: 'human' }])
})

test('a consequence that the caller is not allowed to cause refuses the whole batch', async () => {
  const kernel = kernelWith([contract('first/pushed', 'second/sign', 'actor')])
  const before = await stateHash(kernel.store)
  await assert.rejects(kernel.call('first/push', { id: 'one' }, devin), { code: 'UNAUTHORIZED' })
  assert.equal(await stateHash(kernel.store), before)
  assert.deepEqual(
    (await linesIn(kernel)).map(({ action }) => action),
    ['kernel/authorization.denied'],
  )
  assert.deepEqual((await kernel.call('first/push', { id: 'one' }, alice)).box.steps, ['push by user_alice', 'sign by user_alice'])
})

test('a rule of the called operation refuses the whole batch, with its own code', async () => {
  const kernel = kernelWith([contract('first/opened', 'second/fill', 'system')])
  await assert.rejects(kernel.call('first/open', { id: 'one' }, alice), { code: 'BOX_FULL' })
  assert.deepEqual(await kernel.store.keys('', '\u{10FFFF}', 10), [])
  assert.deepEqual(await linesIn(kernel), [])
})

test('the record reads depth first: cause, its consequence, the consequence of that', async () => {
  const kernel = kernelWith([
    contract('first/opened', 'first/push', 'actor'),
    contract('first/opened', 'second/seal', 'system'),
    contract('first/pushed', 'second/sign', 'actor'),
  ])
  await kernel.call('first/open', { id: 'one' }, alice)
  assert.deepEqual(
    (await linesIn(kernel)).map(({ action, cause }) => [action, cause]),
    [
      ['first/opened', null],
      ['first/pushed', 1],
      ['second/signed', 2],
      ['second/sealed', 1],
    ],
  )
})

test('on whose behalf it began stays with the last consequence', async () => {
  const kernel = kernelWith([contract('first/opened', 'first/push', 'system'), contract('first/pushed', 'second/seal', 'system')])
  await kernel.call('first/open', { id: 'one' }, alice)
  assert.deepEqual(
    (await linesIn(kernel)).map(({ behalf }) => behalf),
    [null, 'user_alice', 'user_alice'],
  )
})

test('a contract that has nothing to do leaves nothing', async () => {
  const kernel = kernelWith([contract('first/opened', 'second/seal', 'system', () => Promise.resolve(null))])
  await kernel.call('first/open', { id: 'one' }, alice)
  assert.equal((await linesIn(kernel)).length, 1)
})

test('contracts that call each other without end are stopped, and nothing is written', async () => {
  const kernel = kernelWith([contract('first/pushed', 'first/push', 'system')])
  await assert.rejects(kernel.call('first/push', { id: 'one' }, alice), (error: Error) => {
    assert.ok(!(error instanceof Refusal), 'it is a bug, not an answer')
    assert.match(error.message, /contracts call each other without end/)
    return true
  })
  assert.deepEqual(await linesIn(kernel), [])
})

test('a contract that calls what is not a command is refused when the kernel is made', () => {
  assert.throws(() => kernelWith([contract('first/opened', 'second/none', 'system')]), /calls second\/none, which is not a command/)
})

test('a contract that follows an event which no protocol declares is refused when the kernel is made', () => {
  assert.throws(
    () => kernelWith([contract('first/openned', 'second/seal', 'system')]),
    /^Error: first\/openned leads to second\/seal follows first\/openned, an event that no protocol declares$/,
  )
})

test('a protocol with an operation that leaves an undeclared event is refused when the kernel is made', () => {
  const { opened: _, ...others } = events
  assert.throws(
    () => kernelWith([], { ...first, events: others }),
    /^Error: first\/open leaves opened, which first does not declare: add it to its events$/,
  )
})

test('a fact of an undeclared event cannot be made', () => {
  // @ts-expect-error -- a misspelt event does not compile
  assert.throws(() => fact('openned', [image(Box, { id: 'one', steps: [] })]), /there is no event openned: declare it in events\.ts/)
})

test('the input that a contract passes on is checked like any other', async () => {
  const kernel = kernelWith([contract('first/opened', 'second/seal', 'system', () => Promise.resolve({ id: 5 }))])
  await assert.rejects(kernel.call('first/open', { id: 'one' }, alice), { code: 'INVALID_REQUEST' })
  assert.deepEqual(await linesIn(kernel), [])
})
