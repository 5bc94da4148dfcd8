// Tables for people: short ids that are accepted again, names that are unique, and relative times.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CliError } from '#apps/cli/exit-codes.ts'
import { flag } from '#apps/cli/derive/flags.ts'
import type { Remote } from '#apps/cli/remote/remote.ts'
import { shortIds, withWholeIds } from '#apps/cli/output/short-ids.ts'
import { show } from '#apps/cli/output/render.ts'
import { spec, type Context } from '#apps/cli/derive/command.ts'
import { agoOf, exactly } from '#apps/cli/output/relative-time.ts'
import { agoText } from '#kernel/codec/timestamps.ts'

const ulid = (end: string): string => `01M7K4B7HK26Y6EM3FMGHXY4JD`.slice(0, 26 - end.length) + end
const now = Date.parse('2026-11-16T12:00:00.000Z')

type Lists = Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>
function remoteOver(lists: Lists, called: string[] = []): Remote {
  const call = (operation: string): Promise<unknown> => {
    called.push(operation)
    const items = lists[operation]
    return items ? Promise.resolve({ items, next_cursor: null }) : Promise.reject(new CliError(1, 'UNAUTHORIZED', 'no'))
  }
  return { call, callAny: call } as unknown as Remote
}

async function shown(lists: Lists, items: readonly object[], columns?: number): Promise<string> {
  let out = ''
  const output = { write: (text: string | Uint8Array) => (out += String(text)), isTTY: columns !== undefined, columns }
  const plain = (_: unknown, text: string): string => text
  const context = {
    io: { out: output, err: { write: () => undefined }, env: {} },
    globals: {},
    json: false,
    paint: plain,
    paintErr: plain,
    remote: () => Promise.resolve(remoteOver(lists)),
  } as unknown as Context
  await show(context, 'x.list', { items, next_cursor: null })
  return out
}

describe('a time', () => {
  for (const [at, short, long] of [
    ['2026-11-16T11:59:59.500Z', 'now', 'just now'],
    ['2026-11-16T11:59:18.000Z', '42s ago', '42 seconds ago'],
    ['2026-11-16T11:59:00.000Z', '1m ago', '1 minute ago'],
    ['2026-11-16T09:01:00.000Z', '2h ago', '2 hours ago'],
    ['2026-11-13T11:00:00.000Z', '3d ago', '3 days ago'],
    ['2026-11-16T14:00:00.000Z', 'in 2h', 'just now'],
    ['2025-01-31T00:00:00.000Z', '2025-01-31', '654 days ago'],
  ] as const) {
    test(`${at} is "${short}" at noon`, () => assert.deepEqual([agoOf(at, now), agoText(at, new Date(now).toISOString())], [short, long]))
  }
  test('on the record is exact', () => assert.equal(exactly('2026-11-16T11:59:18.123Z'), '2026-11-16 11:59:18Z'))
})

describe('a short id', () => {
  test('is the end that tells ids of one kind apart; ids that no list has stay whole', () => {
    const [a, b, c] = [`task_${ulid('AAAAAA')}`, `task_${ulid('BAAAAAA')}`, `ckpt_${ulid('AAAAAA')}`]
    assert.deepEqual(
      [...shortIds([a, c])],
      [
        [a, 'task_AAAAAA'],
        // A reader of an item does not always find it in a list.
        [c, c],
      ],
    )
    assert.deepEqual([shortIds([a, b]).get(a), shortIds([a, b]).get(b)], [`task_${a.slice(-7)}`, 'task_BAAAAAA'])
    assert.equal(shortIds([`art_${ulid('AAAAAA')}`]).get(`art_${ulid('AAAAAA')}`), `art_${ulid('AAAAAA')}`)
    assert.equal(shortIds(['user_owner']).get('user_owner'), 'user_owner')
  })

  test('of a session that another harness named is as short', async () => {
    const id = 'hxp_bb02110f-75dc-4f0e-9a51-0c1d2e3f4a5b'
    assert.equal(shortIds([id, `hxp_${ulid('AAAAAA')}`]).get(id), 'hxp_3F4A5B')
    const shown = spec('x y', '', {
      positionals: [{ ...flag('request-id', 'id', ''), path: ['request_id'] }],
      run: () => Promise.resolve(),
    })
    const remote = remoteOver({ 'execution/inbox.list': [{ request_id: id }], 'execution/request.list': [] }, [])
    for (const text of ['hxp_3F4A5B', '3f4a5b', id])
      assert.equal((await withWholeIds(shown, new Map([['request-id', text]]), () => Promise.resolve(remote))).get('request-id'), id)
  })

  const task = `task_${ulid('3FKEE4')}`
  const lists: Lists = {
    'collaboration/task.list': [{ id: task }, { id: `task_${ulid('ZZKEE4')}` }],
    'identity/agent.list': [{ id: 'agent_robin' }, { id: `agent_${ulid('3FKEE4')}` }],
    'identity/user.list': [{ id: 'user_owner' }],
  }
  const one = spec('x y', '', {
    positionals: [{ ...flag('task-id', 'id', ''), path: ['task_id'] }, flag('assignee', 'id', '')],
    flags: [flag('to', 'time', ''), flag('reviewers', 'id', '', { many: true })],
    run: () => Promise.resolve(),
  })
  const given = async (pairs: readonly (readonly [string, unknown])[], called: string[] = []): Promise<unknown> =>
    Object.fromEntries(await withWholeIds(one, new Map(pairs), () => Promise.resolve(remoteOver(lists, called))))

  test('is accepted wherever an id is: with its prefix, without it, in small letters; a chosen id by its word', async () => {
    for (const text of ['task_3FKEE4', '3FKEE4', '3fkee4', task]) assert.deepEqual(await given([['task-id', text]]), { 'task-id': task })
    assert.deepEqual(await given([['assignee', 'robin']]), { assignee: 'agent_robin' })
    assert.deepEqual(await given([['assignee', 'agent_3FKEE4']]), { assignee: `agent_${ulid('3FKEE4')}` })
    assert.deepEqual(await given([['reviewers', ['owner', 'user_x']]]), { reviewers: ['user_owner', 'user_x'] })
  })
  test('costs nothing for whole ids and for values that are no ids', async () => {
    const called: string[] = []
    const pairs = [
      ['task-id', task],
      ['assignee', 'agent_nope'],
      ['to', '2026'],
    ] as const
    assert.deepEqual(await given(pairs, called), Object.fromEntries(pairs))
    assert.deepEqual(await given([['task-id', 'task_1']], called), { 'task-id': 'task_1' })
    assert.deepEqual(called, [])
  })
  test('that matches nothing is left to the server, and an ambiguous one is refused', async () => {
    assert.deepEqual(await given([['task-id', 'task_9999']]), { 'task-id': 'task_9999' })
    await assert.rejects(given([['task-id', 'KEE4']]), /"KEE4" matches several ids: task_\w+, task_\w+/)
  })
  test('can be the beginning of an id that no other id shares; a matching end comes first', async () => {
    const [old, recent, twin] = ['task_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'task_01M7MMRGCW4BF63QDTGV5Q7HP0', 'task_01M7MMRGXX4BF63QDTG01M7MMR']
    const among = async (ids: readonly string[], text: string): Promise<unknown> => {
      const ofTasks: Lists = { 'collaboration/task.list': ids.map((id) => ({ id })) }
      return Object.fromEntries(await withWholeIds(one, new Map([['task-id', text]]), () => Promise.resolve(remoteOver(ofTasks, []))))
    }
    assert.deepEqual(await among([old, recent], 'task_01M7MM'), { 'task-id': recent })
    assert.deepEqual(await among([old, recent, twin], 'task_01M7MMR'), { 'task-id': twin })
    await assert.rejects(among([old, recent, twin], 'task_01M7MMRG'), /matches several ids/)
  })
})

describe('a short id beyond the first project', () => {
  const [task, run] = [`task_${ulid('3FKEE4')}`, `run_${ulid('7HXEE4')}`]
  const one = spec('x y', '', { positionals: [flag('task', 'id', ''), flag('run-id', 'id', '')], run: () => Promise.resolve() })
  type Answers = Readonly<Record<string, (input: { project_id?: string }) => readonly object[]>>
  const refused = (code: string): never => {
    throw new CliError(1, code, 'no')
  }
  async function given(answers: Answers, pairs: readonly (readonly [string, unknown])[]): Promise<unknown> {
    const call = async (operation: string, input: object): Promise<unknown> => ({ items: answers[operation]!(input), next_cursor: null })
    return Object.fromEntries(await withWholeIds(one, new Map(pairs), () => Promise.resolve({ callAny: call, call } as unknown as Remote)))
  }
  const projects = () => [{ id: 'project_a' }, { id: 'project_b' }]

  test('is found in each project that the caller is in', async () => {
    const answers: Answers = {
      'identity/project.list': projects,
      'collaboration/task.list': ({ project_id }) =>
        project_id === 'project_b' ? [{ id: task }] : project_id === 'project_a' ? [] : refused('NOT_FOUND'),
      'delegation/run.list': ({ project_id }) => (project_id === 'project_b' ? [{ id: run }] : refused('INVALID_REQUEST')),
    }
    assert.deepEqual(await given(answers, [['task', 'task_3FKEE4'], ['run-id', '7HXEE4']]), { task, 'run-id': run }) // prettier-ignore
  })
  test('is left to the server if every list is refused, for any reason', async () => {
    for (const code of ['UNAUTHORIZED', 'INVALID_REQUEST', 'NOT_FOUND']) {
      const answers: Answers = { 'identity/project.list': projects, 'delegation/run.list': () => refused(code) }
      assert.deepEqual(await given(answers, [['run-id', 'run_7HXEE4']]), { 'run-id': 'run_7HXEE4' })
    }
  })
  test('asks a bounded number of times, however many projects there are', async () => {
    let calls = 0
    const answers: Answers = {
      'identity/project.list': () => Array.from({ length: 1_000 }, (_, i) => ({ id: `project_${i}` })),
      'collaboration/task.list': () => (calls++, []),
    }
    assert.deepEqual(await given(answers, [['task', 'task_3FKEE4']]), { task: 'task_3FKEE4' })
    assert.ok(calls < 100, String(calls))
  })
})

describe('a table', () => {
  const task = (end: string, assignee: string) => ({
    id: `task_${ulid(end)}`,
    state: 'assigned',
    ownership: { assignee },
    spec: { goal: 'Fix the login bug and make all of the tests green again' },
    created_at: new Date(Date.now() - 125_000).toISOString(),
  })
  const people: Lists = {
    'identity/user.list': [{ id: 'user_owner', name: 'Olga' }],
    'identity/agent.list': [
      { id: 'agent_robin', name: 'Robin' },
      { id: 'agent_fake', name: 'OLGA' },
      { id: 'agent_sly', name: 'user_owner' },
    ],
  }
  test('has short ids, names and relative times, and fits into 80 columns with the goal to read', async () => {
    const out = await shown(people, [task('3FKEE4', 'agent_robin'), task('3FKEE5', 'user_owner')], 80)
    assert.equal(
      out,
      'TASK         STATE     HELD BY     CREATED  GOAL\n' +
        'task_3FKEE4  assigned  Robin       2m ago   Fix the login bug and make all of t…\n' +
        'task_3FKEE5  assigned  user_owner  2m ago   Fix the login bug and make all of t…\n',
    )
  })
  test('shows no shared name, no name that looks like an id, and ids if names are unknown', async () => {
    assert.match(await shown(people, [task('3FKEE4', 'agent_fake')]), / agent_fake /)
    assert.match(await shown(people, [task('3FKEE4', 'agent_sly')]), / agent_sly /)
    assert.match(await shown({ 'identity/agent.list': people['identity/agent.list']! }, [task('3FKEE4', 'agent_robin')]), / agent_robin /)
  })
  test('says what became of a task and of its run: cancelled is not completed, stopped is not failed', async () => {
    const ended = (end: string, outcome: string | null) => ({ ...task(end, 'user_owner'), state: 'completed', outcome })
    const out = await shown(people, [ended('3FKEE4', 'cancelled'), ended('3FKEE5', 'rejected_at_checkpoint'), ended('3FKEE6', 'accepted')])
    assert.match(out, /3FKEE4 +cancelled[^]*3FKEE5 +rejected [^]*3FKEE6 +completed/)
    const run = { id: `run_${ulid('3FKEE4')}`, run_id: `run_${ulid('3FKEE4')}`, correlation_id: 'task_1', agent_id: 'agent_robin' }
    assert.match(await shown(people, [{ ...run, state: 'failed', reason: 'cancelled' }]), /3FKEE4 +stopped/)
  })
  test('of runs says which of them no process has taken', async () => {
    const run = (end: string, queued: boolean) => ({
      id: `run_${ulid(end)}`,
      run_id: `run_${ulid(end)}`,
      correlation_id: 'task_1',
      state: 'running',
      agent_id: 'agent_robin',
      queued,
    })
    const out = await shown(people, [run('3FKEE4', true), run('3FKEE5', false)])
    assert.match(out, /3FKEE4 +queued +Robin/)
    assert.match(out, /3FKEE5 +running +Robin/)
  })
  test('of the record has exact times and ids instead of names', async () => {
    const event = {
      seq: 1,
      at: '2026-11-16T11:59:18.123Z',
      action: 'task.created',
      actor: 'agent_robin',
      subject: { id: `task_${ulid('3FKEE4')}` },
    }
    assert.equal(
      await shown(people, [event]),
      'SEQ  AT                    ACTION        ACTOR        SUBJECT\n1    2026-11-16 11:59:18Z  task.created  agent_robin  task_3FKEE4\n',
    )
  })
})
