// HLP's scopes: their syntax, which scope covers which, and the effect of a task's grants on a request.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { covers, overlaps } from '#protocols/collaboration/task/scopes.ts'
import { stage, type Stage } from '../../support/in-process/stage.ts'

type Vectors = {
  readonly normalize: readonly { readonly scope: string; readonly expected: string | object }[]
  readonly match: readonly { readonly grant: string; readonly requested: string; readonly expected: boolean; readonly why: string }[]
  readonly decide: readonly {
    readonly grants: readonly any[]
    readonly requested: string
    readonly expected: boolean
    readonly why: string
  }[]
}
const vectors: Vectors = JSON.parse(readFileSync(new URL('../../fixtures/hlp/scope-vectors.json', import.meta.url), 'utf8'))

test('a scope covers what the table says', () => {
  for (const { grant, requested, expected, why } of vectors.match) {
    assert.equal(covers(grant.trim(), requested.trim()), expected, `${grant} covers ${requested}: ${why}`)
    if (expected) assert.ok(overlaps(grant.trim(), requested.trim()), `${grant} meets ${requested}`)
  }
})

test('two scopes meet if one reaches into the other, and it does not matter which is named first', () => {
  for (const [one, other, expected] of [
    ['fs:/repo:*', 'fs:/repo/secrets:*', true],
    ['fs:/repo:*', 'fs:/repo/secrets', true],
    ['fs:/repo*', 'fs:/rep*', true],
    ['*', 'deploy', true],
    ['fs:/a:*', 'fs:/b:*', false],
    ['fs:/repo:*', 'fs:/repository/x', false],
    ['bash:ls', 'bash:*', true],
    ['bash:ls', 'bash:l', false],
  ] as const)
    for (const [a, b] of [
      [one, other],
      [other, one],
    ] as const)
      assert.equal(overlaps(a, b), expected, `${a} and ${b}`)
})

/** Scopes of ours that HLP does not know: bare words, and namespaces that begin with a digit or have a dot. */
const ours = ['bash', '1a:b', 'a.b:c']
test('a grant takes every scope of the grammar, bare words, and nothing else', async () => {
  const on = await stage('in_progress')
  const input = { task_id: on.refs['task'].id, decision: 'deny', until: 'task' }
  for (const { scope, expected } of vectors.normalize) {
    if (typeof expected === 'string') await on.call('alice', 'grant.add', { ...input, scope: expected })
    else if (ours.includes(scope)) await on.call('alice', 'grant.add', { ...input, scope })
    else await on.refused('INVALID_SPEC', 'alice', 'grant.add', { ...input, scope })
  }
})

const add = (on: Stage, { scope, decision }: { readonly scope: string; readonly decision: string }): Promise<any> =>
  on.call('alice', 'grant.add', { task_id: on.refs['task'].id, scope, decision, until: 'task' })
const use = async (on: Stage, scope: string): Promise<string> =>
  (await on.call('devin', 'grant.use', { task_id: on.refs['task'].id, scope })).decision

test('the grants of a task decide as the table says', async () => {
  for (const { grants, requested, expected, why } of vectors.decide) {
    // Times and runs are tested with the grants themselves.
    if (grants.some(({ until }) => until !== 'task')) continue
    const on = await stage('in_progress')
    for (const grant of grants) await add(on, grant)
    assert.equal((await use(on, requested)) === 'allow', expected, why)
  }
})

test('the narrowest allow is the one that is used', async () => {
  const on = await stage('in_progress')
  for (const scope of ['*', 'fs:/repo*', 'fs:/repo/src:*']) await add(on, { scope, decision: 'allow' })
  const { grant } = await on.call('devin', 'grant.use', { task_id: on.refs['task'].id, scope: 'fs:/repo/src/a.ts' })
  assert.equal(grant.scope, 'fs:/repo/src:*')
})

test('a deny above a task binds a wildcard below it', async () => {
  const on = await stage('delegable')
  await on.call('alice', 'grant.add', { task_id: on.refs['task'].id, scope: 'fs:/repo/secrets:*', decision: 'deny', until: 'task' })
  const { child } = await on.call('devin', 'ownership.delegate', { task_id: on.refs['task'].id, to: 'agent_robin', spec: { goal: 'g' } })
  await on.call('robin', 'task.start', { task_id: child.id })
  await on.call('alice', 'grant.add', { task_id: child.id, scope: 'fs:/repo:*', decision: 'allow', until: 'task' })
  for (const [scope, decision] of [
    ['fs:/repo:*', 'deny'],
    ['fs:/repo/secrets/key', 'deny'],
    ['fs:/repo/src', 'allow'],
  ])
    assert.equal((await on.call('robin', 'grant.use', { task_id: child.id, scope })).decision, decision)
})

test('a preview counts the questions that a wildcard covers, paths included', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  for (const scope of ['fs:/repo/a', 'fs:/repo:w', 'fs:/repository/x']) {
    const ask = { action: 'APPROVE', payload: { item: 'Write', details: {}, scope }, metadata: { task_id } }
    const { request } = await on.call('devin', 'execution/request.create', ask)
    await on.call('alice', 'execution/request.resolve', { request_id: request.id, result: 'approved' })
  }
  const { would_answer } = await on.call('alice', 'grant.preview', { task_id, scope: 'fs:/repo:*' })
  assert.equal(would_answer, 2)
})
