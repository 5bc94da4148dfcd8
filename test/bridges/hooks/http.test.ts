// `POST /hook/claude-code` of a real server: a decision or an error status, never an empty 200. The calls are counted in the record.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { request } from 'node:http'
import { openStage, until, type Agent, type Stage } from '#test/support/as-processes/agents.ts'
import { shellOf } from './events.ts'

type Answer = { readonly status: number; readonly text: string }
let stage: Stage
let agent: Agent

const event = (command: string, more: object = {}): object => ({ ...shellOf('claude-code'), tool_input: { command }, ...more })
async function hook(body: string | object, { key = agent.key, query = '', method = 'POST' } = {}): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${stage.server.port}/hook/claude-code${query}`, {
    method,
    headers: { 'content-type': 'application/json', ...(key === '' ? {} : { authorization: `Bearer ${key}` }) },
    ...(method === 'POST' ? { body: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
  })
  return { status: response.status, text: await response.text() }
}
const decisionOf = ({ status, text }: Answer): string => {
  assert.equal(status, 200, text)
  return (JSON.parse(text) as { hookSpecificOutput: { permissionDecision: string } }).hookSpecificOutput.permissionDecision
}
const calls = async (): Promise<any[]> => (await stage.owner.gate.call.list({})).items
const waiting = (): Promise<any> => until(async () => (await calls()).find(({ state }) => state === 'waiting'), 'a waiting call')
const answer = (request_id: string, result: string): Promise<unknown> => stage.owner.execution.request.resolve({ request_id, result })

before(async () => {
  stage = await openStage()
  agent = await stage.agent('coder')
  await stage.owner.execution.policy.set({
    installation: true,
    gate: {
      version: 1,
      default: 'ask',
      rules: [
        { id: 'reads', tool: 'claude-code/Read', then: 'allow' },
        { id: 'no', tool: 'claude-code/Write', then: 'deny', reason: 'use Edit' },
      ],
    },
  })
})
after(() => stage.close())

describe('POST /hook/claude-code', () => {
  it('a rule allows a call, which is begun, or denies it with its reason', async () => {
    assert.equal(decisionOf(await hook(event('x', { tool_name: 'Read' }))), 'allow')
    const denied = await hook(event('x', { tool_name: 'Write' }))
    assert.equal(decisionOf(denied), 'deny')
    assert.match(denied.text, /rule no denies it: use Edit/)
    assert.deepEqual((await calls()).map(({ state }) => String(state)).toSorted(), ['begun', 'denied'])
  })

  it('a bad request gets an error status and proposes nothing', async () => {
    const before = (await calls()).length
    const good = event('touch a')
    const { key: person } = await stage.system('identity/key.issue', { subject: 'user_owner' })
    const bad: readonly [string, Promise<Answer>, number][] = [
      ['no key', hook(good, { key: '' }), 401],
      ['a wrong key', hook(good, { key: 'cs_nonsense' }), 401],
      ["a person's key", hook(good, { key: person }), 403],
      ['no body', hook(''), 400],
      ['half a body', hook('{"a":'), 400],
      ['a list', hook('[]'), 400],
      ['a repeated key', hook('{"hook_event_name":"SessionStart","hook_event_name":"PreToolUse"}'), 400],
      ['no tool', hook(event('x', { tool_name: '' })), 400],
      ['input as text', hook(event('x', { tool_input: 'x' })), 400],
      ['a wait that is none', hook(good, { query: '?wait=9m' }), 400],
      ['an unknown answer', hook(good, { query: '?late=allow' }), 400],
      ['another method', hook(good, { method: 'GET' }), 405],
      ['a large event', hook(event('x'.repeat(4 * 1024 * 1024))), 413],
    ]
    for (const [what, answered, status] of bad) assert.equal((await answered).status, status, what)
    assert.equal((await calls()).length, before)
  })

  it('a failure of the server has an error status', async (t) => {
    t.mock.method(stage.server.kernel, 'call', () => Promise.reject(new Error('the disk is full')))
    assert.equal((await hook(event('touch a'))).status, 500)
  })

  it('another event gets no decision and no 200', async () => {
    assert.deepEqual(await hook(event('x', { hook_event_name: 'SessionStart' })), { status: 204, text: '' })
  })

  it('a person allows a call once, and its card names the sub-agent', async () => {
    const asked = hook(event('touch once', { agent_id: 'a1', agent_type: 'reviewer' }))
    const { request_id } = await waiting()
    const { request: item } = await stage.owner.execution.request.get({ request_id })
    assert.equal((item.payload as { details: { sub_agent?: string } }).details.sub_agent, 'reviewer (a1)')
    await answer(request_id, 'approved')
    assert.equal(decisionOf(await asked), 'allow')
    assert.equal(decisionOf(await hook(event('touch once'), { query: '?wait=PT1S&late=deny' })), 'deny')
    await stage.owner.gate.call.cancel({ call_id: (await waiting()).call_id })
  })

  it('an approval is used up by the first of two collections', async () => {
    const late = { query: '?wait=PT1S&late=deny' }
    assert.match((await hook(event('touch fork'), late)).text, /not run yet/)
    const { request_id, call_id } = await waiting()
    await answer(request_id, 'approved')
    const forks = await Promise.all([1, 2, 3].map((session_id) => hook(event('touch fork', { session_id: `fork ${session_id}` }), late)))
    assert.equal(forks.filter(({ text }) => text.includes('"permissionDecision":"allow"')).length, 1)
    assert.equal((await stage.owner.gate.call.get({ call_id })).state, 'begun')
    for (const { state, ...open } of await calls()) if (state === 'waiting') await stage.owner.gate.call.cancel({ call_id: open.call_id })
  })

  it('a rejection between two calls is collected, and the person is not asked again', async () => {
    const late = { query: '?wait=PT1S&late=deny' }
    await hook(event('touch rejected'), late)
    const { request_id } = await waiting()
    await answer(request_id, 'rejected')
    const before = (await calls()).length
    assert.match((await hook(event('touch rejected'), late)).text, /a person rejected it/)
    assert.equal((await calls()).length, before)
  })

  it('one of two deferred calls of a turn has to call again, and one item stays', async () => {
    const defer = { query: '?wait=PT1S&late=defer' }
    const both = await Promise.all(['a', 'b'].map((name) => hook(event(`touch ${name}`, { tool_use_id: name }), defer)))
    assert.deepEqual(both.map(decisionOf).toSorted(), ['defer', 'deny'])
    assert.match(both.find((one) => decisionOf(one) === 'deny')!.text, /Call again/)
    const open = (await calls()).filter(({ state }) => state === 'waiting')
    assert.deepEqual([open.length, open[0].unattended], [1, true])
    await stage.owner.gate.call.cancel({ call_id: open[0].call_id })
  })

  it('a client that goes away ends its wait, and its item says that nobody waits', async () => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${agent.key}` }
    const sent = request({ port: stage.server.port, path: '/hook/claude-code', method: 'POST', headers })
    sent.on('error', () => undefined)
    sent.end(JSON.stringify(event('touch gone')))
    const { call_id } = await waiting()
    sent.destroy()
    await until(async () => (await stage.owner.gate.call.get({ call_id })).unattended, 'nobody waits')
    await stage.owner.gate.call.cancel({ call_id })
  })

  it('a stop of the server ends a wait with a decision, and the same call finds its question afterwards', async () => {
    const asked = hook(event('touch restart'))
    const { call_id, request_id } = await waiting()
    await stage.restart()
    const stopped = await asked
    assert.equal(decisionOf(stopped), 'deny')
    assert.match(stopped.text, /not run yet/)
    await answer(request_id, 'approved')
    assert.equal(decisionOf(await hook(event('touch restart'))), 'allow')
    assert.equal((await stage.owner.gate.call.get({ call_id })).state, 'begun')
  })
})
