// CAP, row for row: what a capability is, how it is found, and what invoking one answers.
import assert from 'node:assert/strict'
import { localSource, skillOf } from '#capabilities/local.ts'
import { contracts } from '#contracts/index.ts'
import { createKernel } from '#kernel/kernel.ts'
import type { Contract } from '#kernel/declare/operation.ts'
import { mcpSource } from '#capabilities/mcp.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { delegation } from '#protocols/delegation/index.ts'
import { directory } from '#protocols/identity/directory.ts'
import { memoryStore } from '#stores/memory.ts'
import { capability, capabilityWorld, local, until } from '../support/in-process/capability-world.ts'
import { manualClock, settled } from '../support/in-process/manual-clock.ts'
import { serveOverHttp } from '../support/over-sockets/mcp-server.ts'
import { requirements } from '../support/laws/requirements.ts'
import { refusalOf } from '../support/in-process/stage.ts'
import { silent } from '../support/in-process/worker-world.ts'
import { protocols } from '../support/in-process/world.ts'
import { realClock } from '#apps/server/clock.ts'
import { capRows } from './cap.ts'

const cap = requirements('CAP', capRows)
const { must } = cap
const message = { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] }
const echo = capability('echo', (input) => input, { input_schema: message, output_schema: message, description: 'Says it again.' })
const version = (version: string) => capability('many', () => ({ version }), { version })

must(
  ['C-CAP-01', 'C-OP-02'],
  'two versions are two capabilities; describe finds that very one, a compatible one, or the newest',
  async () => {
    const on = await capabilityWorld([
      local(version('1.0.0'), version('1.2.0'), version('1.10.0'), version('2.0.0'), version('3.0.0-rc.1')),
    ])
    const described = async (asked?: string): Promise<string> =>
      (await on.world.call('devin', 'delegation/capability.describe', { capability_id: 'cap:many', ...(asked ? { version: asked } : {}) }))
        .manifest.version
    assert.equal(await described('1.2.0'), '1.2.0')
    assert.equal(await described('1.3.0'), '1.10.0', 'not older, and nothing in between that breaks it')
    assert.equal(await described(), '2.0.0', 'the newest release')
    assert.equal(await described('3.0.0-rc.1'), '3.0.0-rc.1')
    assert.deepEqual((await on.invoke('cap:many', {}, { version: '1.0.0' })).output, { version: '1.0.0' })
    assert.deepEqual((await on.invoke('cap:many', {}, { version: '1.1.0' })).ref, { capability_id: 'cap:many', version: '1.10.0' })
    for (const missing of ['2.1.0', '0.9.0', '9.0.0'])
      assert.equal((await refusalOf(described(missing))).code, 'NOT_FOUND', `${missing} is served by none`)
    await on.close()
  },
)

const skill = skillOf({
  capability_id: 'cap:release-notes',
  version: '1.0.0',
  name: 'Release notes',
  description: 'How we write release notes.',
  input_schema: { type: 'object', properties: { product: { type: 'string' }, changes: { type: 'array' } }, required: ['product'] },
  prompt_template: 'Write the notes of {{ product }} from {{changes}}. Leave {{nothing}} out.',
  resources: [{ uri: 'https://example.com/style', name: 'Style' }],
  required_permissions: ['docs:write'],
  tools: [{ capability_id: 'cap:echo', version: '1.0.0' }],
})

must(['C-CAP-02', 'C-MAN-01', 'C-MAN-02', 'C-OP-01'], 'list answers manifests of both kinds with every field', async () => {
  const on = await capabilityWorld([local(echo, skill)])
  const { items, next_cursor } = await on.world.call('devin', 'delegation/capability.list')
  const fields = [
    'capability_id',
    'version',
    'kind',
    'name',
    'description',
    'input_schema',
    'output_schema',
    'prompt_template',
    'resources',
    'required_permissions',
  ]
  for (const item of items) assert.deepEqual(Object.keys(item).toSorted(), fields.toSorted())
  assert.deepEqual(
    items.map(({ capability_id, kind }: any) => [capability_id, kind]),
    [
      ['cap:echo', 'tool'],
      ['cap:release-notes', 'skill'],
    ],
  )
  assert.equal(next_cursor, null)
  assert.deepEqual(items[0].output_schema, message)
  assert.deepEqual(
    [items[1].prompt_template, items[1].resources, items[1].required_permissions],
    [skill.manifest.prompt_template, skill.manifest.resources, ['docs:write']],
  )
  const skills = await on.world.call('devin', 'delegation/capability.list', { kind: 'skill' })
  assert.deepEqual(skills.items, [items[1]])
  const bare = { source: 'x', projects: ['project_default'], manifests: [{ ...items[0], input_schema: undefined }] }
  assert.equal((await refusalOf(on.world.call('system', 'delegation/capability.offer', bare))).code, 'INVALID_REQUEST')
  await on.close()
})

must('C-CAP-03', 'invoking a skill answers its prompt, filled in, with its tools and resources', async () => {
  const on = await capabilityWorld([local(skill)])
  await on.world.call('alice', 'collaboration/grant.add', { task_id: on.task_id, scope: 'docs:*', decision: 'allow', until: 'task' })
  const { ok, output } = await on.invoke('cap:release-notes', { product: 'Ours', changes: [1, 'two'] })
  assert.equal(ok, true)
  assert.deepEqual(output, {
    prompt: 'Write the notes of Ours from [1,"two"]. Leave  out.',
    resources: [{ uri: 'https://example.com/style', name: 'Style' }],
    tools: [{ capability_id: 'cap:echo', version: '1.0.0' }],
  })
  await on.close()
})

must(
  ['C-REF-01', 'C-REF-02', 'C-LAY-03'],
  'every upper layer names a capability by its reference, and nothing that it reads says where it runs',
  async (t) => {
    const http = await serveOverHttp(t)
    const settings = {
      name: 'remote',
      projects: ['project_default'],
      permissions: {},
      server: { url: http.url, headers: { 'x-secret': 'hidden' } },
    }
    const on = await capabilityWorld([mcpSource(settings, realClock, silent)])
    const listed = async (): Promise<any[]> => (await on.world.call('devin', 'delegation/capability.list')).items
    await until(async () => (await listed()).length > 0)
    const answer = await on.invoke('cap:remote/echo', { message: 'hi' }, { version: '1.4.2' })
    assert.equal(answer.ok, true)
    const shown = JSON.stringify([await listed(), answer, await on.events()])
    for (const transport of [http.url, '127.0.0.1', 'hidden', 'http'])
      assert.ok(!shown.includes(transport), `${transport} is nobody's business`)
    const refs = [...collaboration.operations, ...delegation.operations].flatMap(({ input }) => refsIn(input))
    assert.ok(refs.length >= 5)
    for (const ref of refs) assert.deepEqual(Object.keys(ref.properties), ['capability_id', 'version'])
    await on.close()
  },
)
/** Schemas inside an input that name a capability, other than manifests. */
function refsIn(schema: any): any[] {
  if (typeof schema !== 'object' || schema === null) return []
  const isRef =
    schema.properties?.capability_id && !schema.properties.input_schema && !schema.properties.cursor && schema.required?.includes('version')
  return isRef ? [schema] : Object.values(schema).flatMap(refsIn)
}

must(['C-OP-03', 'C-RES-01'], 'invoke answers ok, output, error and duration_ms', async () => {
  const on = await capabilityWorld([local(echo)])
  const { invocation_id, duration_ms, ...rest } = await on.invoke('cap:echo', { message: 'hi' })
  assert.deepEqual(rest, { ok: true, output: { message: 'hi' }, error: null, ref: { capability_id: 'cap:echo', version: '1.0.0' } })
  assert.match(invocation_id, /^inv_/)
  assert.ok(Number.isInteger(duration_ms) && duration_ms >= 0)
  await on.close()
})

must('C-RES-02', 'the caller waits for as long as the capability takes, and has the result in its answer', async () => {
  const clock = manualClock()
  const gate = Promise.withResolvers<object>()
  const on = await capabilityWorld([local(capability('slow', () => gate.promise))], { clock })
  let answered = false
  const calling = on.invoke('cap:slow').then((answer) => {
    answered = true
    return answer
  })
  await clock.advance(20_000)
  assert.equal(answered, false)
  gate.resolve({ at: 'last' })
  assert.deepEqual([(await calling).output, (await calling).duration_ms], [{ at: 'last' }, 20_000])
  await on.close()
})

must(['C-RES-03', 'C-ERR-02'], 'an input that its schema does not allow is INVALID_INPUT, and nothing ran or was recorded', async () => {
  let runs = 0
  const counted = capability('counted', () => ++runs, { input_schema: { ...message, additionalProperties: false } })
  const on = await capabilityWorld([local(counted)])
  for (const input of [undefined, {}, { message: 1 }, { message: 'x', more: 1 }, [], 'words', null, 7]) {
    const { ok, output, error, invocation_id } = await on.invoke('cap:counted', input)
    assert.deepEqual([ok, output, error.code, invocation_id], [false, null, 'INVALID_INPUT', null], JSON.stringify(input))
    assert.match(error.message, /^input/)
  }
  assert.equal(runs, 0)
  assert.deepEqual(await on.events(), [])
  await on.close()
})

must(
  ['C-RES-04', 'C-ERR-04'],
  'an output that breaks its schema is EXECUTION_FAILED and is not handed on; so is whatever throws',
  async () => {
    const liar = capability('liar', () => ({ message: 42, secret: 'x' }), { output_schema: message })
    const broken = capability('broken', () => {
      throw new Error('no disk')
    })
    const odd = capability('odd', () => ({ big: 1n }))
    const on = await capabilityWorld([local(liar, broken, odd)])
    const answer = await on.invoke('cap:liar')
    assert.deepEqual([answer.ok, answer.output, answer.error.code], [false, null, 'EXECUTION_FAILED'])
    assert.match(answer.error.message, /its answer does not fit its output_schema: output\.message must be string/)
    assert.deepEqual((await on.invoke('cap:broken')).error, { code: 'EXECUTION_FAILED', message: 'no disk' })
    assert.equal((await on.invoke('cap:odd')).error.code, 'EXECUTION_FAILED')
    const reasons = (await on.events()).filter(({ action }) => action === 'capability.failed').map(({ after }) => after.reason)
    assert.deepEqual(reasons, ['output_invalid', 'failed', 'output_invalid'])
    await on.close()
  },
)

must('C-ERR-01', 'what is not offered to the project of the run is NOT_FOUND, whoever else has it', async () => {
  const elsewhere = localSource('elsewhere', ['project_other'], [echo])
  const on = await capabilityWorld([elsewhere])
  for (const name of ['cap:echo', 'cap:nothing']) {
    const { ok, error } = await on.invoke(name, { message: 'x' })
    assert.deepEqual([ok, error.code], [false, 'NOT_FOUND'])
  }
  assert.deepEqual((await on.world.call('devin', 'delegation/capability.list')).items, [])
  assert.equal((await on.world.call('spy', 'delegation/capability.list', { project_id: 'project_other' })).items.length, 1)
  assert.equal((await refusalOf(on.world.call('spy', 'delegation/capability.list'))).code, 'NOT_FOUND')
  assert.equal((await refusalOf(on.world.call('devin', 'delegation/capability.describe', { capability_id: 'cap:echo' }))).code, 'NOT_FOUND')
  await on.close()
})

must(
  'C-ERR-03',
  'without a grant PERMISSION_DENIED, with one allowed and used up, denied by a deny, and not after it was revoked',
  async () => {
    let runs = 0
    const deploy = capability('deploy', () => ({ runs: ++runs }), { required_permissions: ['deploy:staging', 'notify:team'] })
    const on = await capabilityWorld([local(deploy)])
    const grant = async (scope: string, decision = 'allow', uses?: number): Promise<string> =>
      (
        await on.world.call('alice', 'collaboration/grant.add', {
          task_id: on.task_id,
          scope,
          decision,
          until: 'task',
          ...(uses ? { uses } : {}),
        })
      ).grant.id
    const tried = async (): Promise<string> => {
      const { ok, error } = await on.invoke('cap:deploy')
      return ok ? 'ok' : `${error.code} ${/(\S+:\S+)$/.exec(error.message)?.[1]}`
    }
    assert.equal(await tried(), 'PERMISSION_DENIED deploy:staging')
    await grant('deploy:*')
    assert.equal(await tried(), 'PERMISSION_DENIED notify:team')
    const id = await grant('notify:team', 'allow', 2)
    assert.equal(await tried(), 'ok')
    const denied_id = await grant('deploy:staging', 'deny')
    assert.equal(await tried(), 'PERMISSION_DENIED deploy:staging', 'a deny wins')
    await grant('deploy:staging')
    assert.equal(await tried(), 'PERMISSION_DENIED deploy:staging', 'over a later allow too')
    await on.world.call('alice', 'collaboration/grant.revoke', { grant_id: denied_id })
    assert.equal(await tried(), 'ok')
    assert.equal(await tried(), 'PERMISSION_DENIED notify:team', 'twice was allowed')
    const again = await grant('notify:team')
    assert.equal(await tried(), 'ok')
    await on.world.call('alice', 'collaboration/grant.revoke', { grant_id: again })
    assert.equal(await tried(), 'PERMISSION_DENIED notify:team', 'it was revoked')
    assert.equal(runs, 3)
    const { items } = await on.world.call('admin', 'collaboration/audit.query', { task_id: on.task_id, limit: 200 })
    const uses = items.filter(({ action }: any) => action === 'grant.used')
    assert.equal(uses.length, 6, 'each use of each grant is on the record')
    assert.ok(uses.some(({ subject }: any) => subject.id === id))
    const denied = (await on.events()).filter(({ action }) => action === 'capability.denied')
    assert.deepEqual(denied[0].after.error, 'PERMISSION_DENIED')
    await on.close()
  },
)

must('C-ERR-05', 'what takes longer than its time is TIMEOUT: by default 30 seconds, at most five minutes', async () => {
  const clock = manualClock()
  let told: AbortSignal | undefined
  const hangs = capability('hangs', (_, signal) => {
    told = signal
    return new Promise(() => undefined)
  })
  const on = await capabilityWorld([local(hangs)], { clock })
  for (const [timeout, ms] of [
    [undefined, 30_000],
    ['PT0.5S', 500],
    ['PT5M', 300_000],
  ] as const) {
    const calling = on.invoke('cap:hangs', {}, timeout ? { timeout } : {})
    await clock.advance(ms - 1)
    assert.equal(told!.aborted, false)
    await clock.advance(1)
    const { ok, error, duration_ms } = await calling
    assert.deepEqual([ok, error.code, duration_ms, told!.aborted], [false, 'TIMEOUT', ms, true], 'and the capability is told')
  }
  assert.ok(clock.longestSleepMs <= 60_000)
  for (const timeout of ['PT301S', 'P1D', '30', 'PT0S'])
    assert.equal((await refusalOf(on.invoke('cap:hangs', {}, { timeout }))).code, 'INVALID_REQUEST')
  await settled()
  await on.close()
})

must(['C-SRC-01', 'C-SRC-02'], "an MCP server's tools are capabilities as they are", async (t) => {
  const http = await serveOverHttp(t)
  const on = await capabilityWorld([
    mcpSource({ name: 'test', projects: ['project_default'], permissions: {}, server: { url: http.url, headers: {} } }, realClock, silent),
  ])
  const listed = async (): Promise<any[]> => (await on.world.call('devin', 'delegation/capability.list')).items
  await until(async () => (await listed()).length > 0)
  const { manifest } = await on.world.call('devin', 'delegation/capability.describe', { capability_id: 'cap:test/sum', version: '1.4.2' })
  assert.deepEqual(
    [manifest.kind, manifest.description, manifest.input_schema.required, manifest.output_schema.required],
    ['tool', 'The tool sum.', ['of'], ['total']],
  )
  assert.deepEqual((await on.invoke('cap:test/sum', { of: [1, 2, 39] }, { version: '1.4.2' })).output, { total: 42 })
  assert.equal((await on.invoke('cap:test/sum', { of: ['x'] }, { version: '1.4.2' })).error.code, 'INVALID_INPUT')
  assert.deepEqual((await on.invoke('cap:test/fails', {}, { version: '1.4.2' })).error, {
    code: 'EXECUTION_FAILED',
    message: 'the disk is on fire',
  })
  await on.close()
})

must('C-LAY-01', 'no operation of HACP leads to an invocation, people and services cannot call it, and no contract ever may', async () => {
  const on = await capabilityWorld([local(echo)])
  const input = { run_id: on.run_id, attempt: 1, ref: { capability_id: 'cap:echo', version: '1.0.0' }, input: { message: 'x' } }
  for (const as of ['alice', 'rita', 'owner', 'admin', 'project', 'system'])
    assert.equal((await refusalOf(on.world.call(as, 'delegation/capability.invoke', input))).code, 'UNAUTHORIZED', as)
  for (const as of ['bob', 'robin', 'spy', 'mallory'])
    assert.equal((await refusalOf(on.world.call(as, 'delegation/capability.invoke', input))).code, 'RUN_NOT_FOUND', as)
  assert.deepEqual(await on.events(), [])
  const sly: Contract = {
    name: 'sly',
    on: 'collaboration/task.created',
    call: 'delegation/capability.invoke',
    as: 'system',
    input: () => Promise.resolve(input),
  }
  const made = (more: readonly Contract[]) => () =>
    createKernel({
      store: memoryStore(),
      protocols,
      contracts: [...contracts, ...more],
      directory,
      now: () => 0,
      entropy: (n) => new Uint8Array(n),
      asksPerMinute: null,
    })
  assert.doesNotThrow(made([]))
  assert.throws(made([sly]), /has an effect/)
  await on.close()
})

must(
  'C-LAY-02',
  "only the run's own agent invokes, while it runs and in its present attempt; the record keeps hashes, never words",
  async () => {
    const on = await capabilityWorld([local(echo)])
    assert.equal((await refusalOf(on.invoke('cap:echo', { message: 'x' }, { attempt: 0 }))).code, 'CONFLICT', 'an older process')
    const { invocation_id } = await on.invoke('cap:echo', { message: 'swordfish' })
    const [begun, ended] = await on.events()
    assert.deepEqual([begun.action, ended.action], ['capability.invoked', 'capability.completed'])
    assert.deepEqual([begun.actor, ended.actor, ended.task_id], ['agent_devin', 'agent_system', on.task_id])
    assert.equal(begun.after.input_hash, 'sha256:' + (await digest('{"message":"swordfish"}')))
    assert.equal(ended.after.output_hash, begun.after.input_hash, 'it said it again')
    assert.deepEqual([begun.subject.id, begun.after.state, ended.after.state], [invocation_id, 'begun', 'succeeded'])
    const facts = await on.world.store.facts({ by: 'position' }, { after: null, limit: 10_000 })
    assert.ok(!JSON.stringify(facts).includes('swordfish'), 'neither in the lines nor in the images')
    await on.world.call('devin', 'collaboration/checkpoint.raise', { task_id: on.task_id, kind: 'approval', prompt: 'May I?' })
    assert.equal((await refusalOf(on.invoke('cap:echo', { message: 'x' }))).code, 'INVALID_TRANSITION', 'a blocked run waits')
    await on.close()
  },
)
async function digest(text: string): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(text))).toString('hex')
}

cap.assertAllCited()
