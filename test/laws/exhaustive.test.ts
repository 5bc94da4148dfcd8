// Every state of a task x every command of collaboration x every kind of caller: each cell is one legal outcome or one
// exact code, and a refusal leaves every document as it was. The table is written by hand and knows nothing of the code's roles.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Refs, Step } from '#kernel/declare/operation.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { isPostgresOff } from '../support/as-processes/postgres.ts'
import { postgresMaker, sampleOf } from '../support/as-processes/postgres-stores.ts'
import { assertMirrored } from '../support/in-process/items.ts'
import { again, HOUR_MS, refusalOf, stage, type Stage } from '../support/in-process/stage.ts'
import { stateHash } from '../support/in-process/world.ts'

// under_review and accepted are not here: review.submit goes through them within one batch, so no task ever stays in them.
const states = ['created', 'assigned', 'in_progress', 'blocked', 'review_ready', 'rejected', 'completed'] as const
type State = (typeof states)[number]
const open: readonly State[] = ['created', 'assigned', 'in_progress', 'blocked', 'review_ready']

const everybody = ['alice', 'rita', 'bob', 'owner', 'mallory', 'devin', 'robin', 'spy', 'admin', 'project', 'system'] as const
type Who = (typeof everybody)[number]

// --- The scenes ------------------------------------------------------------------------------------------------------------
// From in_progress on, each task has a resolved checkpoint, an artifact, a grant and an upload behind it, so that no operation is
// refused merely because there is nothing to point at.

const step = (as: string, call: string, input: (refs: Refs) => object): Step => ({ as, call: `collaboration/${call}`, input })
const ofTask =
  (more: object = {}) =>
  (refs: Refs): object => ({ task_id: refs['task'].id, ...more })
const ofArtifact =
  (more: object = {}) =>
  (refs: Refs): object => ({ task_id: refs['task'].id, artifact_id: refs['artifact'].id, ...more })
const inline = { payload: { kind: 'inline', uri: 'data:,x' } }

const hello = { checksum: 'sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824', size: 5 }

const created = [step('alice', 'task.create', () => ({ spec: { goal: 'Fix it' }, reviewers: ['user_rita'] }))]
const assigned = [...created, step('alice', 'task.assign', ofTask({ assignee: 'agent_devin', delegable: true }))]
const in_progress = [
  ...assigned,
  step('devin', 'task.start', ofTask()),
  step('devin', 'checkpoint.raise', ofTask({ kind: 'approval', prompt: 'May I?' })),
  step('alice', 'checkpoint.resolve', (refs) => ({ checkpoint_id: refs['checkpoint'].id, action: 'approve' })),
  step('devin', 'artifact.commit', ofTask(inline)),
  step('alice', 'review.submit', ofArtifact({ verdict: 'changes_requested', requested_changes: ['name it'] })),
  step('alice', 'grant.add', ofTask({ scope: 'deploy:staging', decision: 'allow', until: 'task' })),
  step('devin', 'artifact.upload', ofTask(hello)),
]
const blocked = [
  ...in_progress,
  step('devin', 'checkpoint.raise', ofTask({ kind: 'approval', prompt: 'Deploy?', expires_in: 'PT1H' })),
  { advanceMs: 2 * HOUR_MS },
]
const review_ready = [...in_progress, step('devin', 'artifact.commit', ofArtifact({ ...inline, parent_version: 'v1' }))]
const scenes: Record<State, readonly Step[]> = {
  created,
  assigned,
  in_progress,
  blocked,
  review_ready,
  rejected: [...review_ready, step('alice', 'review.submit', ofArtifact({ verdict: 'rejected' }))],
  completed: [...review_ready, step('alice', 'review.submit', ofArtifact({ verdict: 'approved' }))],
}

// --- The table -------------------------------------------------------------------------------------------------------------

type Row = {
  readonly input: (refs: Refs) => object
  readonly who: readonly Who[]
  /** The states that allow it, and the state of the task afterwards (`=`: the same). */
  readonly to: Partial<Record<State, string>>
  /** The object that it points at: without it every actor is told that it is not there. */
  readonly needs?: 'checkpoint' | 'artifact' | 'grant' | 'upload'
  /** An agent that waits may not: only people change something then. */
  readonly notBlocked?: true
}
const same = (...of: readonly State[]): Partial<Record<State, string>> => Object.fromEntries(of.map((state) => [state, '=']))
const from = (of: readonly State[], to: string): Partial<Record<State, string>> => Object.fromEntries(of.map((state) => [state, to]))

const table: Record<string, Row> = {
  'task.assign': { input: ofTask({ assignee: 'agent_devin' }), who: ['alice'], to: { created: 'assigned' } },
  'task.reassign': {
    input: ofTask({ assignee: 'agent_robin' }),
    who: ['alice'],
    to: { created: 'assigned', assigned: '=', in_progress: '=', blocked: 'in_progress' },
  },
  'task.start': { input: ofTask(), who: ['devin', 'system'], to: { assigned: 'in_progress' } },
  'task.cancel': { input: ofTask(), who: ['alice', 'system'], to: from(['created', 'assigned', 'in_progress', 'blocked'], 'completed') },
  'task.complete': { input: ofTask(), who: ['system'], to: {} },
  'task.extend': { input: ofTask({ deadline: '2029-01-01T00:00:00Z' }), who: ['alice'], to: same(...open) },
  'task.overdue': { input: ofTask(), who: ['system'], to: {} }, // no scene is late; each late state is shown by its decision
  'reviewer.add': { input: ofTask({ user: 'user_bob' }), who: ['alice'], to: same(...open) },
  'reviewer.remove': { input: ofTask({ user: 'user_rita' }), who: ['alice'], to: same(...open) },
  'checkpoint.raise': { input: ofTask({ kind: 'input', prompt: 'Which?' }), who: ['devin'], to: { in_progress: 'blocked' } },
  'checkpoint.resolve': {
    input: (refs) => ({ checkpoint_id: refs['checkpoint']?.id ?? 'ckpt_none', action: 'approve' }),
    who: ['alice', 'rita'],
    to: { blocked: 'in_progress' },
    needs: 'checkpoint',
  },
  'checkpoint.decline': {
    input: (refs) => ({ checkpoint_id: refs['checkpoint']?.id ?? 'ckpt_none', reason: 'Not mine to say.' }),
    who: ['alice', 'rita'],
    to: same('blocked'),
    needs: 'checkpoint',
  },
  'checkpoint.expire': {
    input: (refs) => ({ checkpoint_id: refs['checkpoint']?.id ?? 'ckpt_none' }),
    who: ['system', 'admin'],
    to: same('blocked'),
    needs: 'checkpoint',
  },
  'checkpoint.overdue': {
    input: (refs) => ({ checkpoint_id: refs['checkpoint']?.id ?? 'ckpt_none' }),
    who: ['system'],
    to: same('blocked'),
    needs: 'checkpoint',
  },
  'checkpoint.escalate': {
    input: ofTask({ prompt: 'It failed.' }),
    who: ['system'],
    to: { assigned: 'blocked', in_progress: 'blocked', blocked: '=' },
  },
  // Behind a request only; without one in the scenes, there is nothing to answer.
  'checkpoint.ask': {
    input: ofTask({ checkpoint_id: 'ckpt_x', request_id: 'hxp_x', raised_by: 'agent_devin', kind: 'input', prompt: 'Which?' }),
    who: ['system'],
    to: { in_progress: 'blocked' },
  },
  'checkpoint.settle': {
    input: (refs) => ({ checkpoint_id: refs['checkpoint']?.id ?? 'ckpt_none', action: 'approve' }),
    who: ['alice', 'rita', 'system'],
    to: {},
    needs: 'checkpoint',
  },
  'task.interrupt': { input: ofTask({ reason: 'Wait.' }), who: ['alice'], to: { in_progress: 'blocked' } },
  'task.takeover': { input: ofTask(), who: ['alice'], to: { in_progress: 'blocked' } },
  'task.return': { input: ofTask(), who: ['alice'], to: {} }, // no scene was taken over; its decision shows it
  'task.amend': { input: ofTask({ text: 'Not there.', intent: 'constrain' }), who: ['alice'], to: same('in_progress', 'blocked') },
  'grant.add': { input: ofTask({ scope: 'shell:*', decision: 'deny', until: 'session' }), who: ['alice'], to: same(...open) },
  'grant.revoke': {
    input: (refs) => ({ grant_id: refs['grant']?.id ?? 'grant_none' }),
    who: ['alice'],
    to: same(...states),
    needs: 'grant',
  },
  'grant.use': { input: ofTask({ scope: 'deploy:staging' }), who: ['devin'], to: same('in_progress') },
  'ownership.transfer': {
    input: ofTask({ to: 'agent_robin' }),
    who: ['system', 'admin'],
    to: same(...open),
  },
  'ownership.delegate': { input: ofTask({ to: 'agent_robin' }), who: ['devin'], to: same('assigned', 'in_progress') },
  'review.submit': {
    input: (refs) => ({ task_id: refs['task'].id, artifact_id: refs['artifact']?.id ?? 'art_none', verdict: 'approved' }),
    who: ['alice', 'rita'],
    to: { review_ready: 'completed' },
    needs: 'artifact',
  },
  'review.comment': {
    input: (refs) => ({ task_id: refs['task'].id, artifact_id: refs['artifact']?.id ?? 'art_none', severity: 'nit', body: 'Hm.' }),
    who: ['alice', 'rita'],
    to: same(...states),
    needs: 'artifact',
  },
  'artifact.commit': { input: ofTask(inline), who: ['devin', 'system'], to: { in_progress: 'review_ready' } },
  'artifact.edit': {
    input: (refs) => ({ task_id: refs['task'].id, artifact_id: refs['artifact']?.id ?? 'art_none', parent_version: 'v1', ...inline }),
    who: ['alice', 'rita'],
    to: same('blocked'),
    needs: 'artifact',
  },
  'artifact.upload': { input: ofTask(hello), who: ['alice', 'rita', 'devin'], to: same(...open), notBlocked: true },
  'upload.expire': { input: ofTask({ checksum: hello.checksum }), who: ['system'], to: {}, needs: 'upload' }, // none is a day old
  'artifact.reference': {
    input: (refs) => ({ task_id: refs['task'].id, artifact_id: refs['artifact']?.id ?? 'art_none', version: 'v1' }),
    who: ['alice', 'devin'],
    to: same(...open),
    needs: 'artifact',
    notBlocked: true,
  },
  'ledger.write': { input: ofTask({ key: 'k', value: 1 }), who: ['alice', 'devin'], to: same(...states), notBlocked: true },
}

/** Actors that can see the task at all: its people, its agent once it has one, owners of the project, and administrators. */
const sees = (who: Who, state: State): boolean =>
  ['alice', 'rita', 'owner', 'project', 'admin', 'system'].includes(who) || (who === 'devin' && state !== 'created')
const isThere = (needs: Row['needs'], state: State): boolean => needs === undefined || !['created', 'assigned'].includes(state)

/** A code, or the state of the task after a legal call. */
function expected({ who: may, to, needs, notBlocked }: Row, state: State, who: Who): { code: string } | { state: string } {
  if (!sees(who, state) || !isThere(needs, state)) return { code: 'NOT_FOUND' }
  if (!may.includes(who)) return { code: 'UNAUTHORIZED' }
  if (notBlocked && who === 'devin' && state === 'blocked') return { code: 'PRECONDITION_FAILED' }
  const next = to[state]
  return next === undefined ? { code: 'PRECONDITION_FAILED' } : { state: next === '=' ? state : next }
}

// --- The cells -------------------------------------------------------------------------------------------------------------

const commands = collaboration.operations.filter((op) => op.kind === 'command').map((op) => op.name)

test('every command of collaboration has a row, and every row is a command', () => {
  assert.deepEqual(['task.create', ...Object.keys(table)].toSorted(), commands.toSorted())
})

/** Calls one cell on a copy of the scene that refusals share; answers whether the copy is used up. */
async function cell(on: Stage, untouched: string, name: string, who: Who, row: Row, state: State): Promise<boolean> {
  const message = `${name} by ${who} while ${state}`
  const want = expected(row, state, who)
  const calling = on.call(who, name, row.input(on.refs))
  if ('state' in want) {
    await calling.catch((error: Error) => assert.fail(`${message}: ${error.message}`))
    assert.equal((await on.task()).state, want.state, message)
    // The inbox has each question of the task and nothing else of it. The checkpoint of this row has no request.
    if (name !== 'checkpoint.ask') await assertMirrored(on.world)
    return true
  }
  assert.equal((await refusalOf(calling)).code, want.code, message)
  assert.equal(await stateHash(on.world.store), untouched, `${message}: nothing changes`)
  return false
}

const postgres = postgresMaker()
after(() => postgres.dispose())
const cells = states.flatMap((state) => Object.keys(table).map((name) => `${state} ${name}`))
const sample = new Set(isPostgresOff ? [] : sampleOf(cells, 6))

/** Each row of the table, and a sample of them once more on PostgreSQL. */
const rowsIn = (state: State) =>
  Object.entries(table).flatMap(([name, row]) => [
    { name, row, open: undefined, where: '' },
    ...(sample.has(`${state} ${name}`) ? [{ name, row, open: postgres.open, where: ', on PostgreSQL as well' }] : []),
  ])

for (const state of states) {
  describe(`while a task is ${state}`, () => {
    let scene: Stage
    let untouched: string
    before(async () => {
      scene = await stage(scenes[state])
      // Of a copy: what was written is kept in the order in which it was made, what is read back in canonical order.
      untouched = await stateHash((await again(scene)).world.store)
      assert.equal((await scene.task()).state, state)
    })
    for (const { name, row, open, where } of rowsIn(state)) {
      const legal = everybody.filter((who) => 'state' in expected(row, state, who))
      test(`${name} is ${legal.length > 0 ? `for ${legal.join(' and ')}` : 'for nobody'}, and exactly refused to all others${where}`, async () => {
        let on = await again(scene, open)
        for (const who of everybody) if (await cell(on, untouched, name, who, row, state)) on = await again(scene, open)
      })
    }
  })
}

test('task.create is for the people of the project, whatever tasks there are', async () => {
  const want: Record<Who, string> = {
    alice: 'created',
    rita: 'created',
    bob: 'created',
    owner: 'created',
    mallory: 'NOT_FOUND',
    devin: 'UNAUTHORIZED',
    robin: 'UNAUTHORIZED',
    spy: 'NOT_FOUND',
    admin: 'UNAUTHORIZED',
    project: 'UNAUTHORIZED',
    system: 'UNAUTHORIZED',
  }
  const on = await stage(scenes.in_progress)
  for (const who of everybody) {
    const untouched = await stateHash(on.world.store)
    const calling = on.call(who, 'task.create', { spec: { goal: 'Another' } })
    const got = await calling.then(
      ({ task }) => task.state as string,
      (error: { code: string }) => error.code,
    )
    assert.equal(got, want[who], who)
    if (got !== 'created') assert.equal(await stateHash(on.world.store), untouched, who)
  }
})

test('no event of any scene leaves a task in under_review or accepted when its batch is done', async () => {
  for (const state of states) {
    const { world, refs } = await stage(scenes[state])
    const seen: string[] = []
    world.kernel.tail.follow((facts) => {
      for (const { fact } of facts) for (const { key, value } of fact.images) if (key.includes('.task/')) seen.push(String(value['state']))
    })
    if (state === 'review_ready') {
      await world.call('alice', 'collaboration/review.submit', ofArtifact({ verdict: 'approved' })(refs))
      assert.deepEqual(seen, ['accepted', 'completed'], 'accepted is passed through within one group')
    }
    const stored = await world.call('admin', 'collaboration/task.list', { state: ['under_review', 'accepted'] })
    assert.deepEqual(stored.items, [], state)
  }
})
