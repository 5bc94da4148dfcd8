// HACP 0.1.0: audit and its actions; the layer below.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { differenceIn } from '#kernel/log/hash-chain.ts'
import { inputOf } from '../support/in-process/examples.ts'
import { linesOf, stage } from '../support/in-process/stage.ts'
import { stateHash } from '../support/in-process/world.ts'
import { hacp } from './hacp-cited.ts'

const { must } = hacp

must('H-AUD-01', 'every operation that changes a document leaves an event that shows the change, or a refusal', async () => {
  const { world } = await stage()
  const { operations } = world.kernel.protocols.find(({ name }) => name === 'collaboration')!
  for (const op of operations) {
    if (op.kind === 'stream') continue
    const { world: fresh, refs, call } = await stage(op.example.given)
    const [documents, facts] = [await stateHash(fresh.store), await linesOf(fresh)]
    if (op.example.refused) continue
    await call(op.example.as, op.name, inputOf(op.example, refs))
    const added = (await linesOf(fresh)).slice(facts.length)
    const changed = (await stateHash(fresh.store)) !== documents
    assert.equal(added.length > 0, changed, `${op.name}: a change and an event go together`)
    if (op.kind === 'command')
      assert.ok(
        added.some((line) => line.action === `collaboration/${op.audit}`),
        `${op.name} leaves ${op.audit}`,
      )
  }
})

must('H-AUD-01', 'the stored documents are the latest images of the events', async () => {
  const { world } = await stage('written')
  const latest = new Map<string, string>()
  for (const stored of await world.store.facts({ by: 'position' }, { after: null, limit: 1_000 }))
    for (const image of stored.images) latest.set(image.key, image.text!)
  const keys = (await world.store.keys('', '\u{10FFFF}', 1_000)).filter((key) => !key.startsWith('kernel.'))
  assert.deepEqual(keys, [...latest.keys()].toSorted())
  for (const [i, row] of (await world.store.read(keys)).entries()) assert.deepEqual(row!.value, JSON.parse(latest.get(keys[i]!)!))
})

must(['H-AUD-02', 'H-IMM-05'], 'a changed or missing event is found: by its hash, by its image, by the next event', async () => {
  const whole = await stage('written')
  const verify = async (damage: (facts: any[], images: any[]) => void): Promise<any> => {
    const { call, disk } = await stage('written')
    damage(disk.facts, disk.images)
    return call('admin', 'audit.verify', {})
  }
  assert.equal((await whole.call('admin', 'audit.verify', {})).valid, true)
  const inProject = (facts: any[], seq: number): number => facts.findIndex((fact) => fact.scope === 'project_default' && fact.seq === seq)
  const edited = await verify((facts) => {
    const i = inProject(facts, 3)
    facts[i] = { ...facts[i], line: facts[i].line.replace('agent_devin', 'user_alice') }
  })
  assert.deepEqual([edited.valid, edited.difference.seq], [false, 3])
  const repainted = await verify((facts, images) => {
    const { position } = facts[inProject(facts, 2)]
    const i = images.findIndex((image) => image.position === position)
    images[i] = { ...images[i], text: images[i].text.replace('Fix', 'Break') }
  })
  assert.deepEqual([repainted.valid, repainted.difference.seq], [false, 2])
  const removed = await verify((facts) => facts.splice(inProject(facts, 4), 1))
  assert.deepEqual([removed.valid, removed.difference.seq], [false, 4])
})

must('H-AUD-03', 'seq counts up by one within a project, whoever acts; another project counts for itself', async () => {
  const { world, call } = await stage('written')
  await call('mallory', 'task.create', { project_id: 'project_other', spec: { goal: 'Elsewhere' } })
  await Promise.all(Array.from({ length: 20 }, (_, i) => call(i % 2 ? 'alice' : 'bob', 'task.create', { spec: { goal: `Number ${i}` } })))
  const lines = await linesOf(world)
  for (const scope of ['project_default', 'project_other', 'system']) {
    const seqs = lines.filter((line) => line.scope === scope).map((line) => line.seq)
    assert.deepEqual(
      seqs,
      Array.from(seqs, (_, i) => i + 1),
    )
  }
  let previous = ''
  for (const stored of await world.store.facts({ by: 'scope', scope: 'project_default' }, { after: null, limit: 1_000 })) {
    assert.equal(differenceIn(stored, previous), null)
    previous = stored.hash
  }
})

must('H-AUD-04', 'an event has the fields of the draft; before is null for a new document, otherwise its former image', async () => {
  const { refs, events } = await stage('written')
  const all = await events()
  const fields = ['id', 'seq', 'at', 'actor', 'action', 'subject', 'task_id', 'before', 'after']
  for (const event of all) for (const field of fields) assert.ok(Object.hasOwn(event, field), `${event.action} has ${field}`)
  const [first, second] = all
  assert.deepEqual([first.action, first.actor, first.subject], ['task.created', 'user_alice', { kind: 'task', id: refs['task'].id }])
  assert.equal(first.before, null)
  assert.equal(first.after.state, 'created')
  assert.deepEqual(second.before, first.after)
  assert.equal(second.after.state, 'assigned')
  for (const event of all) for (const change of event.changes) assert.equal(change.before === null, change.version === 1, event.action)
})

const draftActions = {
  'task.create': 'task.created',
  'task.assign': 'task.assigned',
  'task.cancel': 'task.cancelled',
  'checkpoint.raise': 'task.checkpoint.raised',
  'checkpoint.resolve': 'task.checkpoint.resolved',
  'checkpoint.expire': 'task.checkpoint.expired',
  'ownership.transfer': 'ownership.transferred',
  'ownership.delegate': 'ownership.delegated',
  'review.submit': 'review.submitted',
  'artifact.commit': 'artifact.committed',
  'ledger.write': 'ledger.written',
}
must('H-ACT-01', 'each operation of the table leaves the action of the table, once, with the caller as its actor', async () => {
  const { world } = await stage()
  const { operations } = world.kernel.protocols.find(({ name }) => name === 'collaboration')!
  for (const [name, action] of Object.entries(draftActions)) {
    const op = operations.find((operation) => operation.name === name)!
    const { world: fresh, refs, call } = await stage(op.example.given)
    const before = (await linesOf(fresh)).length
    await call(op.example.as, name, inputOf(op.example, refs))
    const added = (await linesOf(fresh)).slice(before).filter((line) => line.action === `collaboration/${action}`)
    assert.deepEqual(
      added.map((line) => line.actor),
      [fresh.cast[op.example.as]!.id],
      name,
    )
  }
})

const sources = join(import.meta.dirname, '../../src/protocols/collaboration')

must('H-LAY-06', 'no operation of this layer is a capability, and no file of it reaches outside the kernel', async () => {
  const { world } = await stage()
  const { operations } = world.kernel.protocols.find(({ name }) => name === 'collaboration')!
  assert.deepEqual(
    operations.filter((op) => /^(capability|cap|tool|skill)\b|invoke/.test(op.name)).map((op) => op.name),
    [],
  )
  const files = globSync('**/*.ts', { cwd: sources })
  assert.ok(files.length > 10)
  for (const file of files) {
    const text = readFileSync(join(sources, file), 'utf8')
    for (const [, from] of text.matchAll(/^(?:import|export)[^'"]*?from\s+['"]([^'"]+)['"]/gms))
      assert.match(from!, /^(#kernel\/|\.\.?\/)[a-z0-9/-]+\.ts$/, `${file} imports ${from}`)
    assert.doesNotMatch(text, /\bimport\(|\bfetch\(|\brequire\(/, file)
  }
})

must('H-LAY-07', 'a task names the capabilities it needs by reference: id and version, and nothing that could be called', async () => {
  const { call, refused } = await stage()
  const withCapability = (ref: object) => ({ spec: { goal: 'Push', constraints: { must_use_capabilities: [ref] } } })
  const ref = { capability_id: 'git.push', version: '1.0.0' }
  await refused('INVALID_REQUEST', 'alice', 'task.create', withCapability({ ...ref, endpoint: 'https://example.com/run' }))
  const { task } = await call('alice', 'task.create', withCapability(ref))
  assert.deepEqual(task.spec.constraints.must_use_capabilities, [ref])
  await refused('INVALID_SPEC', 'alice', 'task.create', withCapability({ capability_id: 'git.push' }))
})
