// Existing HXP clients, call by call: an agent's client, a demo script and a web page for people. Each takes the address of a server and
// credentials, and throws where such a client would break.
import assert from 'node:assert/strict'

export type Credentials = { readonly agent: string; readonly human: string }
type Called = { readonly status: number; readonly json: any; readonly headers: Headers }

/** As `fetch` in a page does it; redirects are not followed, because these clients do not. */
async function call(url: string, bearer: string | null, method: string, body?: unknown, origin?: string): Promise<Called> {
  const response = await fetch(url, {
    method,
    redirect: 'manual',
    headers: {
      ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(origin === undefined ? {} : { origin }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  assert.match(response.headers.get('content-type') ?? '', /^application\/json/, text)
  return { status: response.status, json: JSON.parse(text), headers: response.headers }
}

/** An agent's client: it creates, and polls until the status is not one of those that wait. */
export async function agentClient(base: string, { agent, human }: Credentials, wait: (ms: number) => Promise<void>): Promise<void> {
  const info = await call(`${base}/hxp`, null, 'GET')
  assert.deepEqual([typeof info.json.name, typeof info.json.version], ['string', 'string'])
  const ask = async (body: object): Promise<string> => {
    const created = await call(`${base}/hxp/v1/requests`, agent, 'POST', body)
    assert.equal(created.status, 201, JSON.stringify(created.json))
    assert.match(created.json.request_id, /^[A-Za-z0-9_-]+$/, 'no quotes and no slashes')
    return created.json.request_id
  }
  const poll = async (id: string): Promise<any> => {
    for (;;) {
      const { status, json } = await call(`${base}/hxp/v1/requests/${id}`, agent, 'GET')
      assert.equal(status, 200)
      assert.equal(json.status, json.status.toLowerCase())
      // A client takes a receipt on an expired request for a completed one.
      assert.ok(json.status !== 'expired')
      if (json.status !== 'pending' && json.status !== 'assigned') return json
      await wait(20)
    }
  }
  const answer = async (id: string, result: unknown): Promise<void> => {
    const { status, json } = await call(`${base}/hxp/v1/requests/${id}/resolve`, human, 'POST', { result, reason: null })
    assert.equal(status, 200, JSON.stringify(json))
    assert.equal(json.receipt.request_id, id)
  }
  const bodies: [object, unknown, unknown][] = [
    [{ action: 'DECIDE', priority: 'high', payload: { question: 'Which?', options: ['A', 'B'] } }, 'B', 'B'],
    [{ action: 'APPROVE', payload: { item: 'Deploy' } }, 'approved', 'approved'],
    [{ action: 'PROVIDE', payload: { prompt: 'How many?', input_type: 'number' } }, '42', 42],
    [
      { action: 'PROVIDE', payload: { prompt: 'Which address?', input_type: 'email', placeholder: 'a@b.c' } },
      'x@example.com',
      'x@example.com',
    ],
  ]
  for (const [body, result, kept] of bodies) {
    const id = await ask(body)
    const first = await call(`${base}/hxp/v1/requests/${id}`, agent, 'GET')
    assert.deepEqual([first.status, first.json.status], [200, 'pending'], 'it can be read at once')
    const polled = poll(id)
    await answer(id, result)
    const { status, receipt } = await polled
    assert.deepEqual([status, receipt.result, typeof receipt.evidence_hash], ['completed', kept, 'string'])
  }
  for (const [path, method, body] of [
    ['/hxp/v1/requests', 'POST', '{"action":'],
    ['/hxp/v1/requests', 'POST', JSON.stringify({ note: 'x'.repeat(300_000) })],
    ['/hxp/v1/requests/hxp_nothing', 'GET', undefined],
    ['/hxp/v1/nothing', 'GET', undefined],
  ] as const) {
    const { status, json } = await call(`${base}${path}`, agent, method, body)
    assert.ok(status >= 400)
    assert.equal(typeof json.message, 'string')
  }
  assert.equal((await call(`${base}/hxp/v1/requests`, 'nobody', 'POST', bodies[0]![0])).status, 401)
}

/** The page for people: it reads the inbox, and posts what was typed, as text. */
export async function page(base: string, { agent, human }: Credentials, origin: string): Promise<void> {
  const asked = async (payload: object): Promise<string> =>
    (await call(`${base}/hxp/v1/requests`, agent, 'POST', { action: 'PROVIDE', priority: 'critical', payload })).json.request_id
  const id = await asked({ prompt: 'How many seats?', input_type: 'number' })
  const inbox = await call(`${base}/hxp/v1/inbox?status=pending`, human, 'GET', undefined, origin)
  assert.equal(inbox.status, 200)
  const found = inbox.json.requests.find((item: any) => item.request_id === id)
  for (const field of ['request_id', 'status', 'action', 'priority', 'agent_id', 'created_at', 'payload']) assert.ok(field in found, field)
  assert.equal(inbox.json.requests[0].priority, 'critical', 'critical first')
  const wrong = await call(`${base}/hxp/v1/requests/${id}/resolve`, human, 'POST', { result: 'many' }, origin)
  assert.deepEqual([wrong.status, typeof wrong.json.message], [422, 'string'])
  const right = await call(`${base}/hxp/v1/requests/${id}/resolve`, human, 'POST', { result: '42' }, origin)
  assert.deepEqual([right.status, right.json.receipt.result], [200, 42])
  const twice = await call(`${base}/hxp/v1/requests/${id}/resolve`, human, 'POST', { result: '42' }, origin)
  assert.deepEqual([twice.status, typeof twice.json.message], [409, 'string'])
  const later = await call(`${base}/hxp/v1/inbox?status=pending`, human, 'GET', undefined, origin)
  assert.ok(!later.json.requests.some((item: any) => item.request_id === id))
  assert.equal((await call(`${base}/hxp/v1/inbox`, agent, 'GET')).status, 401)
}

/** The demo script: one key, and several names of unregistered agents and projects. */
export async function demo(base: string, { agent }: Credentials): Promise<void> {
  for (const [agent_id, project_id] of [
    ['agent_alpha_01', 'project_alpha'],
    ['agent_beta_07', 'project_beta'],
  ]) {
    const body = {
      action: 'APPROVE',
      agent_id,
      project_id,
      metadata: { agent_framework: 'langgraph' },
      payload: { item: 'x', details: {} },
    }
    const { status, json } = await call(`${base}/hxp/v1/requests`, agent, 'POST', body)
    assert.equal(status, 201, JSON.stringify(json))
    const shown = (await call(`${base}${json.poll_url}`, agent, 'GET')).json
    assert.deepEqual([shown.agent_id, shown.project_id], [agent_id, project_id])
  }
}
