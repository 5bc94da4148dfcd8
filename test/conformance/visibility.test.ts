// Visibility: things of others do not exist for a caller. Ids that look foreign, lists, counts and cursors, the words of a refusal,
// and the record of those who reached for them.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { enlist, linesOf, refusalOf, stage, type Stage } from '../support/in-process/stage.ts'

describe('ids that look like a person', () => {
  const lookalikes = [
    'User_alice',
    ' user_alice',
    'user_alice ',
    'user_alice\u200b',
    'user_аlice',
    'user_ALICE',
    'USER_ALICE',
    'user_alice/x',
  ]
  lookalikes.push('alice', 'user_', 'system', 'agent_system', 'service_admin', 'project_default', '__proto__', 'user_alice@v1')

  test('none of them can be given work, a review or a task', async () => {
    const created = await stage('created')
    const blocked = await stage('blocked')
    const delegable = await stage('delegable')
    for (const id of lookalikes) {
      await created.refused('NOT_FOUND', 'alice', 'task.assign', { task_id: created.refs['task'].id, assignee: id })
      await created.refused('NOT_FOUND', 'alice', 'reviewer.add', { task_id: created.refs['task'].id, user: id })
      await created.refused('NOT_FOUND', 'alice', 'task.create', { spec: { goal: 'x' }, reviewers: [id] })
      await delegable.refused('NOT_FOUND', 'devin', 'ownership.delegate', { task_id: delegable.refs['task'].id, to: id })
      await delegable.refused('NOT_FOUND', 'admin', 'ownership.transfer', { task_id: delegable.refs['task'].id, to: id })
      const answer = { checkpoint_id: blocked.refs['checkpoint'].id, action: 'reassign', reassign_to: id }
      await blocked.refused('NOT_FOUND', 'alice', 'checkpoint.resolve', answer)
    }
  })

  test('none of them can be registered beside the real one, except as an id of its own that is plain letters', async () => {
    const { call, refused } = await stage()
    for (const id of lookalikes.filter((one) => one !== 'user_ALICE'))
      await refused('INVALID_REQUEST', 'admin', 'identity/user.add', { id, name: 'Alice' })
    await call('admin', 'identity/user.add', { id: 'user_ALICE', name: 'Another' })
    await refused('CONFLICT', 'admin', 'identity/user.add', { id: 'user_alice', name: 'Alice' })
    await refused('CONFLICT', 'admin', 'identity/agent.add', { id: 'agent_system', name: 'System', owner: 'user_alice' })
  })

  test('only administrators choose ids, and they see everything: a taken id reveals nothing new', async () => {
    const on = await stage()
    const says = async (as: string, operation: string, input: object): Promise<string> => {
      const { code, message } = await on.refused('UNAUTHORIZED', as, operation, input)
      return `${code} ${message}`
    }
    for (const [as, foreign] of [
      ['alice', 'agent_spy'],
      ['mallory', 'agent_devin'],
    ] as const) {
      await on.refused('NOT_FOUND', as, 'identity/agent.get', { agent_id: foreign })
      const agent = { name: 'Mine', owner: `user_${as}`, project_id: null }
      const taken = await says(as, 'identity/agent.add', { ...agent, id: foreign })
      assert.equal(await says(as, 'identity/agent.add', { ...agent, id: 'agent_nobody' }), taken)
      assert.match((await on.call(as, 'identity/agent.add', agent)).agent.id, /^agent_[0-9A-Z]{26}$/)
      for (const [operation, id] of [
        ['identity/user.add', 'user_owner'],
        ['identity/project.add', 'project_default'],
      ] as const) {
        const fields = operation === 'identity/user.add' ? { name: 'X', project_id: null } : { name: 'X' }
        assert.equal(await says(as, operation, { ...fields, id }), await says(as, operation, { ...fields, id: `${id}_2` }))
      }
    }
    for (const as of ['admin', 'owner', 'system']) {
      assert.equal((await on.call(as, 'identity/agent.get', { agent_id: 'agent_spy' })).agent.owner, 'user_mallory')
      await on.refused('CONFLICT', as, 'identity/agent.add', { id: 'agent_spy', name: 'X', owner: 'user_alice' })
      await on.call(as, 'identity/agent.add', { id: `agent_by_${as}`, name: 'X', owner: 'user_alice' })
    }
  })

  test('an actor is a person by what it is registered as, never by how its id is spelled', async () => {
    const blocked = await stage('blocked')
    const { world, refs } = blocked
    const answer = { checkpoint_id: refs['checkpoint'].id, action: 'approve' }
    const projects = new Map([['project_default', 'owner' as const]])
    for (const kind of ['agent', 'service', 'system'] as const) {
      const actor: Actor = { id: 'user_alice', kind, projects }
      for (const [operation, input] of [
        ['checkpoint.resolve', answer],
        ['task.cancel', { task_id: refs['task'].id }],
        ['task.create', { spec: { goal: 'x' } }],
      ] as const) {
        if (kind === 'system' && operation === 'task.cancel') continue
        assert.equal(
          (await refusalOf(world.kernel.call(`collaboration/${operation}`, input, actor))).code,
          'UNAUTHORIZED',
          `${kind} ${operation}`,
        )
      }
    }
    for (const id of lookalikes) {
      const actor: Actor = { id, kind: 'human', projects }
      assert.equal((await refusalOf(world.kernel.call('collaboration/checkpoint.resolve', answer, actor))).code, 'UNAUTHORIZED', id)
    }
  })
})

/** Every page of a list, one item each, and everything that the answers say, cursors opened. */
async function pages(on: Stage, as: string, operation: string, input: object): Promise<{ ids: string[]; said: string }> {
  const ids: string[] = []
  let said = ''
  let cursor: string | null = null
  for (let page = 0; page < 100; page++) {
    const answer: any = await on.call(as, operation, { ...input, limit: 1, ...(cursor === null ? {} : { cursor }) })
    ids.push(...answer.items.map((item: any) => item.id))
    cursor = answer.next_cursor
    said += JSON.stringify(answer) + Buffer.from(cursor ?? '', 'base64url').toString()
    if (cursor === null) return { ids, said }
  }
  return assert.fail(`${operation} never ends`)
}

describe('lists and counts', () => {
  test('tasks: a member who is no party sees none, also not by asking for their principal, their assignee or their parent', async () => {
    const on = await stage('blocked')
    const foreign = on.refs['task'].id
    for (const as of ['bob', 'robin'])
      for (const filter of [{}, { principal: 'user_alice' }, { assignee: 'user_alice' }, { parent_task: foreign }, { state: 'blocked' }]) {
        const { ids, said } = await pages(on, as, 'task.list', filter)
        assert.deepEqual(ids, [], as)
        assert.doesNotMatch(said, new RegExp(foreign))
      }
    assert.deepEqual((await pages(on, 'alice', 'task.list', {})).ids, [foreign])
    assert.deepEqual((await pages(on, 'owner', 'task.list', {})).ids, [foreign])
    assert.deepEqual((await pages(on, 'mallory', 'task.list', { project_id: 'project_other' })).ids, [])
    await on.refused('NOT_FOUND', 'mallory', 'task.list', {})
    await on.refused('NOT_FOUND', 'alice', 'task.list', { project_id: 'project_other' })
  })

  test('a cursor of one reader shows another nothing that they could not ask for', async () => {
    const on = await stage('created')
    await on.call('alice', 'task.create', { spec: { goal: 'Second' } })
    const { next_cursor } = await on.call('alice', 'task.list', { limit: 1 })
    assert.deepEqual((await on.call('bob', 'task.list', { limit: 1, cursor: next_cursor })).items, [])
    await on.refused('INVALID_REQUEST', 'bob', 'task.list', { cursor: next_cursor, state: 'created' })
  })

  test('checkpoints: only those that you may answer, and those of a task that you may read', async () => {
    const on = await stage('blocked')
    for (const as of ['bob', 'robin', 'mallory', 'spy', 'devin']) assert.deepEqual((await pages(on, as, 'checkpoint.list', {})).ids, [], as)
    for (const as of ['alice', 'rita']) assert.deepEqual((await pages(on, as, 'checkpoint.list', {})).ids, [on.refs['checkpoint'].id], as)
    for (const as of ['bob', 'robin', 'mallory', 'spy'])
      await on.refused('NOT_FOUND', as, 'checkpoint.list', { task_id: on.refs['task'].id })
  })

  test('audit: a project for its owners, a task for its readers, and of a tree only what the reader may read', async () => {
    const on = await stage('delegable')
    const root: string = on.refs['task'].id
    for (const as of ['alice', 'rita', 'bob', 'devin', 'robin']) await on.refused('UNAUTHORIZED', as, 'audit.query', {})
    for (const as of ['mallory', 'spy']) await on.refused('NOT_FOUND', as, 'audit.query', {})
    for (const as of ['alice', 'devin', 'project', 'mallory']) await on.refused('UNAUTHORIZED', as, 'audit.query', { project_id: 'system' })
    for (const as of ['bob', 'robin', 'mallory', 'spy'])
      for (const filter of [{ task_id: root }, { root_task_id: root }]) await on.refused('NOT_FOUND', as, 'audit.query', filter)
    const { child } = await on.call('devin', 'ownership.delegate', { task_id: root, to: 'agent_robin', spec: { goal: 'A part' } })
    const seenBy = async (as: string): Promise<string[]> => {
      const { items } = await on.call(as, 'audit.query', { root_task_id: root, limit: 200 })
      const tasks: string[] = items.map((event: any) => event.task_id)
      return [...new Set(tasks)].toSorted()
    }
    assert.deepEqual(await seenBy('alice'), [root, child.id as string].toSorted())
    assert.deepEqual(await seenBy('devin'), [root, child.id as string].toSorted(), 'who passed a part on reads what comes of it')
    await on.refused('NOT_FOUND', 'robin', 'audit.query', { root_task_id: root })
    const { task: other } = await on.call('alice', 'task.create', { parent_task: root, spec: { goal: 'Another part' } })
    assert.deepEqual(await seenBy('devin'), [root, child.id as string].toSorted(), 'and not of what others added')
    await on.refused('NOT_FOUND', 'devin', 'audit.replay', { task_id: other.id })
  })

  test("audit: filters hold together, and a project beside a task is the task's or one of yours", async () => {
    const on = await stage('delegable')
    const root: string = on.refs['task'].id
    const { child } = await on.call('devin', 'ownership.delegate', { task_id: root, to: 'agent_robin', spec: { goal: 'A part' } })
    const { task: other } = await on.call('alice', 'task.create', { spec: { goal: 'Something else' } })
    const count = async (as: string, filter: object) => (await on.call(as, 'audit.query', { ...filter, limit: 200 })).items.length
    const ofChild = await count('alice', { task_id: child.id })
    assert.ok(ofChild > 0)
    assert.equal(await count('alice', { task_id: child.id, root_task_id: root, project_id: 'project_default' }), ofChild)
    assert.equal(await count('alice', { task_id: root, root_task_id: root }), await count('alice', { task_id: root }))
    assert.equal(await count('alice', { task_id: child.id, root_task_id: other.id }), 0)
    assert.equal(await count('admin', { task_id: root, project_id: 'project_other' }), 0)
    assert.equal(await count('admin', { root_task_id: root, project_id: 'project_other' }), 0)
    assert.equal(await count('alice', { task_id: root, project_id: 'system' }), 0, 'no event of a task is an identity event')
    for (const project_id of ['project_other', 'project_nowhere'])
      for (const filter of [{ task_id: root }, { root_task_id: root }])
        await on.refused('NOT_FOUND', 'alice', 'audit.query', { ...filter, project_id })
  })

  test('people and agents: those of your projects and your own; no page and no cursor names anybody else', async () => {
    const on = await stage()
    for (const as of ['alice', 'bob', 'devin', 'project']) {
      const users = await pages(on, as, 'identity/user.list', {})
      assert.deepEqual(users.ids, ['user_alice', 'user_bob', 'user_owner', 'user_rita'], as)
      assert.doesNotMatch(users.said, /mallory/, as)
      const agents = await pages(on, as, 'identity/agent.list', {})
      assert.deepEqual(agents.ids, ['agent_devin', 'agent_robin'], as)
      assert.doesNotMatch(agents.said, /spy/, as)
      const theirs = await pages(on, as, 'identity/agent.list', { owner: 'user_mallory' })
      assert.deepEqual(theirs.ids, [], as)
      assert.doesNotMatch(theirs.said, /spy/, as)
    }
    const mallory = await pages(on, 'mallory', 'identity/user.list', {})
    assert.deepEqual(mallory.ids, ['user_mallory'])
    assert.doesNotMatch(mallory.said, /user_(alice|bob|owner|rita)/)
    assert.deepEqual((await pages(on, 'mallory', 'identity/agent.list', {})).ids, ['agent_spy'])
    for (const operation of ['identity/user.list', 'identity/agent.list'])
      await on.refused('NOT_FOUND', 'mallory', operation, { project_id: 'project_default' })
    assert.deepEqual((await pages(on, 'owner', 'identity/user.list', {})).ids.length, 5, 'the installation is its owner’s')
  })

  test('projects: your own', async () => {
    const on = await stage()
    for (const as of ['alice', 'devin', 'project'])
      assert.deepEqual((await pages(on, as, 'identity/project.list', {})).ids, ['project_default'])
    const mallory = await pages(on, 'mallory', 'identity/project.list', {})
    assert.deepEqual(mallory.ids, ['project_other'])
    assert.doesNotMatch(mallory.said, /project_default/)
  })

  test('ledgers: of your project and of the organisation', async () => {
    const on = await stage('written')
    await on.call('devin', 'ledger.write', { task_id: on.refs['task'].id, key: 'motto', value: 'on', scope: 'org' })
    for (const operation of ['ledger.read', 'ledger.history']) {
      await on.refused('NOT_FOUND', 'mallory', operation, { key: 'release' })
      await on.refused('NOT_FOUND', 'mallory', operation, { key: 'release', scope: 'project:project_default' })
      await on.call('mallory', operation, { key: 'motto', scope: 'org' })
    }
    await on.refused('UNAUTHORIZED', 'devin', 'ledger.write', {
      task_id: on.refs['task'].id,
      key: 'k',
      value: 1,
      scope: 'project:project_other',
    })
  })

  test('artifacts: not those of a task that you may not read, and no reference from one', async () => {
    const on = await stage('review_ready')
    const artifact_id = on.refs['artifact'].id
    for (const as of ['bob', 'robin', 'mallory', 'spy']) await on.refused('NOT_FOUND', as, 'artifact.get', { artifact_id, version: 'v1' })
    const { task } = await on.call('rita', 'task.create', { spec: { goal: 'Use it' } })
    await on.call('rita', 'artifact.reference', { task_id: task.id, artifact_id, version: 'v1' })
    assert.deepEqual((await on.call('devin', 'artifact.get', { artifact_id })).artifact.references, [])
    assert.deepEqual((await on.call('rita', 'artifact.get', { artifact_id })).artifact.references, [{ task_id: task.id, as: 'input' }])
  })

  test('inputs: the executor of a task reads the versions that its spec names, nothing around them, and only while it is the executor', async () => {
    const on = await stage('review_ready')
    await enlist(on, 'third')
    const [source, artifact_id]: string[] = [on.refs['task'].id, on.refs['artifact'].id]
    const v1 = { artifact_id, version: 'v1' }
    const spec = { goal: 'Go on from it', inputs: [{ kind: 'artifact', id: artifact_id, version: 'v1' }] }
    const { task } = await on.call('alice', 'task.create', { spec, delegable: true })
    const nobodyElse = async (...who: string[]) => {
      for (const as of who) for (const operation of ['artifact.get', 'artifact.download']) await on.refused('NOT_FOUND', as, operation, v1)
    }
    await nobodyElse('robin', 'third', 'bob', 'spy', 'mallory')
    await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_robin' })
    const denied = async () => (await linesOf(on.world)).filter(({ action }) => action === 'kernel/authorization.denied').length
    const before = await denied()
    assert.deepEqual(
      (await on.call('robin', 'artifact.get', v1)).artifact,
      (await on.call('alice', 'artifact.get', v1)).artifact,
      'the same as the principal reads',
    )
    assert.equal((await on.call('robin', 'artifact.download', v1)).name, `${artifact_id}-v1`)
    assert.equal(await denied(), before, 'to read what is yours is not written down as reaching for what is not')
    await nobodyElse('third', 'bob', 'spy', 'mallory')

    // Nothing around it: no other version, no task, no list, no review, no record.
    const rework = { task_id: source, artifact_id, verdict: 'changes_requested', requested_changes: ['more'] }
    await on.call('alice', 'review.submit', rework)
    await on.call('devin', 'artifact.commit', {
      task_id: source,
      artifact_id,
      parent_version: 'v1',
      payload: { kind: 'inline', uri: 'data:,2' },
    })
    for (const asked of [{ artifact_id }, { artifact_id, version: 'v2' }, { artifact_id, version: 'v9' }])
      for (const operation of ['artifact.get', 'artifact.download']) await on.refused('NOT_FOUND', 'robin', operation, asked)
    for (const operation of ['task.get', 'review.list', 'checkpoint.list', 'audit.query', 'audit.replay'])
      await on.refused('NOT_FOUND', 'robin', operation, { task_id: source })
    await on.refused('NOT_FOUND', 'robin', 'review.comment', { task_id: source, artifact_id, severity: 'nit', body: 'Hm.' })
    assert.deepEqual((await pages(on, 'robin', 'task.list', {})).ids, [task.id])

    // Only readers of an input can pass it on.
    await on.call('robin', 'task.start', { task_id: task.id })
    const v2 = { ...spec, inputs: [{ kind: 'artifact', id: artifact_id, version: 'v2' }] }
    for (const [as, operation, input] of [
      ['robin', 'ownership.delegate', { task_id: task.id, to: 'agent_third', spec: v2 }],
      ['bob', 'task.create', { spec }],
      ['bob', 'task.create', { spec: v2 }],
    ] as const)
      await on.refused('INVALID_SPEC', as, operation, input)
    const { child } = await on.call('robin', 'ownership.delegate', { task_id: task.id, to: 'agent_third', spec })
    await on.call('third', 'artifact.get', v1)
    await on.call('robin', 'artifact.reference', { task_id: task.id, ...v1 })
    assert.deepEqual((await on.call('robin', 'artifact.get', v1)).artifact.references, [{ task_id: task.id, as: 'input' }])
    const evidence = { kind: 'approval', prompt: 'As in it?', context: [{ kind: 'artifact', ...v1 }] }
    await on.call('robin', 'checkpoint.raise', { task_id: task.id, ...evidence })

    // A former executor loses it; the new one has it, and so has the executor of the part.
    await on.call('admin', 'ownership.transfer', { task_id: task.id, to: 'user_bob' })
    await nobodyElse('robin', 'spy', 'mallory')
    await on.call('bob', 'artifact.get', v1)
    await on.call('third', 'artifact.download', v1)
    await on.call('admin', 'ownership.transfer', { task_id: child.id, to: 'agent_devin' })
    await nobodyElse('third')
  })

  test('keys: of yourself and of what you keep, and never a digest', async () => {
    const on = await stage()
    for (const subject of ['agent_devin', 'user_alice', 'project_default']) await on.call('admin', 'identity/key.issue', { subject })
    assert.equal((await pages(on, 'alice', 'identity/key.list', { subject: 'agent_devin' })).ids.length, 1)
    assert.doesNotMatch((await pages(on, 'alice', 'identity/key.list', { subject: 'user_alice' })).said, /digest/)
    await on.refused('UNAUTHORIZED', 'bob', 'identity/key.list', { subject: 'user_alice' })
    await on.refused('UNAUTHORIZED', 'alice', 'identity/key.list', { subject: 'project_default' })
    for (const subject of ['agent_devin', 'user_alice', 'project_default'])
      await on.refused('NOT_FOUND', 'mallory', 'identity/key.list', { subject })
  })
})

const ULID = '01J0K7M4N8Y7Q2W3E4R5T6Y7V8'

test('unknown and foreign ids get the same refusal, for every kind of id', async () => {
  const on = await stage('review_ready')
  const { task, artifact } = on.refs
  const blocked = await stage('blocked')
  const checkpoint = blocked.refs['checkpoint'].id
  const key = (await on.call('admin', 'identity/key.issue', { subject: 'user_alice' })).issued.id
  const inProject = { spec: { goal: 'x' } }
  const questions: [Stage, string, (id: string) => object, string, string][] = [
    [on, 'task.get', (id) => ({ task_id: id }), task.id, `task_${ULID}`],
    [on, 'task.list', (id) => ({ project_id: id }), 'project_default', 'project_nowhere'],
    [on, 'task.create', (id) => ({ ...inProject, project_id: id }), 'project_default', 'project_nowhere'],
    [on, 'task.create', (id) => ({ ...inProject, project_id: 'project_other', parent_task: id }), task.id, `task_${ULID}`],
    [on, 'task.create', (id) => ({ ...inProject, project_id: 'project_other', reviewers: [id] }), 'user_alice', 'user_nobody'],
    [on, 'artifact.get', (id) => ({ artifact_id: id }), artifact.id, `art_${ULID}`],
    [on, 'review.list', (id) => ({ task_id: id }), task.id, `task_${ULID}`],
    [on, 'audit.query', (id) => ({ task_id: id }), task.id, `task_${ULID}`],
    [on, 'audit.query', (id) => ({ project_id: id }), 'project_default', 'project_nowhere'],
    [on, 'audit.verify', (id) => ({ project_id: id }), 'project_default', 'project_nowhere'],
    [on, 'ledger.read', (id) => ({ key: 'k', scope: `project:${id}` }), 'project_default', 'project_nowhere'],
    [on, 'ledger.write', (id) => ({ task_id: id, key: 'k', value: 1 }), task.id, `task_${ULID}`],
    [blocked, 'checkpoint.resolve', (id) => ({ checkpoint_id: id, action: 'approve' }), checkpoint, `ckpt_${ULID}`],
    [on, 'identity/user.get', (id) => ({ user_id: id }), 'user_alice', 'user_nobody'],
    [on, 'identity/agent.get', (id) => ({ agent_id: id }), 'agent_devin', 'agent_nobody'],
    [on, 'identity/agent.update', (id) => ({ agent_id: id, name: 'Mine' }), 'agent_devin', 'agent_nobody'],
    [on, 'identity/agent.seal_key', (id) => ({ agent_id: id, jwk: null }), 'agent_devin', 'agent_nobody'],
    [on, 'identity/project.get', (id) => ({ project_id: id }), 'project_default', 'project_nowhere'],
    [on, 'identity/project.leave', (id) => ({ project_id: id, subject: 'user_mallory' }), 'project_default', 'project_nowhere'],
    [on, 'identity/key.list', (id) => ({ subject: id }), 'user_alice', 'user_nobody'],
    [on, 'identity/key.issue', (id) => ({ subject: id }), 'project_default', 'project_nowhere'],
    [on, 'identity/key.revoke', (id) => ({ key_id: id }), key, `key_${ULID}`],
  ]
  for (const [at, operation, input, foreign, random] of questions) {
    const hidden = await at.refused('NOT_FOUND', 'mallory', operation, input(foreign))
    const missing = await at.refused('NOT_FOUND', 'mallory', operation, input(random))
    assert.equal(hidden.message.replaceAll(foreign, 'ID'), missing.message.replaceAll(random, 'ID'), operation)
    assert.deepEqual(hidden.details, missing.details, operation)
  }
})

describe('denials in the record', () => {
  test('a denied access is recorded with its actor and its subject, in the chain of the subject', async () => {
    const on = await stage('created')
    const before = (await linesOf(on.world)).length
    await on.refused('NOT_FOUND', 'mallory', 'task.cancel', { task_id: on.refs['task'].id })
    await on.refused('UNAUTHORIZED', 'rita', 'task.cancel', { task_id: on.refs['task'].id })
    const written = (await linesOf(on.world)).slice(before)
    assert.deepEqual(
      written.map((line) => [line.action, line.actor, line.scope, line.subject]),
      ['user_mallory', 'user_rita'].map((who) => [
        'kernel/authorization.denied',
        who,
        'project_default',
        `collaboration.task/${on.refs['task'].id}`,
      ]),
    )
    const { items } = await on.call('owner', 'audit.query', { action: 'authorization.denied' })
    assert.equal(items.length, 2)
    assert.deepEqual(
      (await on.events()).filter((event) => event.action === 'authorization.denied'),
      [],
      'the task’s own story stays clean',
    )
  })

  test('unknown ids, bad input and a wrong state leave no fact', async () => {
    const on = await stage('created')
    const before = (await linesOf(on.world)).length
    await on.refused('NOT_FOUND', 'mallory', 'task.get', { task_id: `task_${ULID}` })
    await on.refused('INVALID_REQUEST', 'mallory', 'task.get', { task_id: 7 })
    await on.refused('PRECONDITION_FAILED', 'alice', 'reviewer.remove', { task_id: on.refs['task'].id, user: 'user_bob' })
    assert.equal((await linesOf(on.world)).length, before)
  })

  test('one actor fills the record only so fast, and does not use up what others have', async () => {
    const on = await stage('created')
    const before = (await linesOf(on.world)).length
    const reach = (as: string): Promise<unknown> => refusalOf(on.call(as, 'task.get', { task_id: on.refs['task'].id }))
    for (let i = 0; i < 3 * limits.denialsPerMinute; i++) await reach('mallory')
    const written = (await linesOf(on.world)).length - before
    assert.ok(written >= limits.denialsPerMinute && written <= limits.denialsPerMinute + 2, `${written} were written`)
    assert.equal(on.world.kernel.stats().denials, 3 * limits.denialsPerMinute)
    await reach('spy')
    assert.equal((await linesOf(on.world)).length - before, written + 1)
    on.world.advance(60_000)
    await reach('mallory')
    assert.equal((await linesOf(on.world)).length - before, written + 2)
  })
})
