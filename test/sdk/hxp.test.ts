// Programs that ask people through the SDK, against a real server: once, over restarts and cuts, with a receipt that verifies.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { after, before, describe, test, type TestContext } from 'node:test'
import { compactDecrypt } from 'jose'
import { localTransport } from 'countersign/local'
import { authenticateAgain } from '#protocols/identity/authenticate.ts'
import {
  createClient,
  CountersignError,
  httpTransport,
  Declined,
  NotAnswered,
  NotApproved,
  ReceiptDoubted,
  type Client,
} from '#sdk/index.ts'
import { socketTransport } from '#sdk/transport/jsonrpc.ts'
import { openStage, until, type Agent, type Stage } from '../support/as-processes/agents.ts'
import { openProxy, type Watch } from '../support/faults/crash-proxy.ts'

let stage: Stage
let owner: Client
before(async () => {
  stage = await openStage()
  owner = stage.owner
})
after(() => stage.close())

async function asker(t: TestContext, connect?: (agent: Agent) => Client): Promise<{ agent: Agent; client: Client }> {
  const agent = await stage.agent('asker')
  const client = connect ? connect(agent) : createClient({ url: stage.server.url, key: agent.key })
  t.after(() => client.close())
  return { agent, client }
}
/** The only open request of an agent. */
const opened = ({ id }: Agent): Promise<any> =>
  until(async () => (await owner.execution.inbox.list({ agent_id: id })).items[0], `a request of ${id}`)
async function answer(agent: Agent, result: unknown, reason?: string): Promise<void> {
  const { request_id, digest } = await opened(agent)
  await owner.execution.request.resolve({ request_id, digest, result, ...(reason === undefined ? {} : { reason }) })
}
const openCount = async ({ id }: Agent): Promise<number> => (await owner.execution.inbox.list({ agent_id: id })).items.length
const jwks = async (): Promise<any> => (await fetch(`${stage.server.url}/.well-known/jwks.json`)).json()

describe('a server that cannot be reached', () => {
  const nowhere = (): Client =>
    createClient({
      transport: httpTransport({
        url: 'http://127.0.0.1:1',
        key: 'cs_x',
        attempts: 1,
        fetch: () => Promise.reject(new TypeError('fetch failed')),
      }),
    })

  test('calls onRetry for each attempt', async () => {
    const leaving = new AbortController()
    const told: unknown[] = []
    const onRetry = ({ code }: CountersignError): void => void (told.push(code) === 2 && leaving.abort(new Error('enough')))
    await assert.rejects(nowhere().hxp.approve('Deploy', { signal: leaving.signal, onRetry }), /enough/)
    assert.deepEqual(told, ['NETWORK', 'NETWORK'])
  })

  test('is reported at each outage, and so is its return', async (t) => {
    const agent = await stage.agent('outages')
    let awaits = 0
    const client = createClient({
      transport: httpTransport({
        url: stage.server.url,
        key: agent.key,
        attempts: 1,
        // The first and the third wait are cut; the call after each shows that the server is there.
        fetch: (url, init) =>
          new Request(url).url.includes('request.await') && ++awaits % 2 === 1 && awaits < 4
            ? Promise.reject(new TypeError('fetch failed'))
            : fetch(url, init),
      }),
    })
    t.after(() => client.close())
    const reports: string[] = []
    const onReconnect = (): void => void (reports.push('back') === 4 && answer(agent, 'approved'))
    await client.hxp.approve('Deploy', { onRetry: () => void reports.push('away'), onReconnect })
    assert.deepEqual(reports, ['away', 'back', 'away', 'back'])
  })

  test('is printed once to standard error if there is no listener', async (t) => {
    const leaving = new AbortController()
    const said = t.mock.method(console, 'error', () => setTimeout(() => leaving.abort(new Error('enough')), 400))
    await assert.rejects(nowhere().hxp.outcome('hxp_1', { signal: leaving.signal }), /enough/)
    assert.deepEqual(
      said.mock.calls.map(({ arguments: [line] }) => String(line)),
      ['countersign: cannot reach http://127.0.0.1:1: fetch failed; trying again'],
    )
  })
})

describe('asking', () => {
  test('decides, approves, provides and verifies, each with a verified receipt', async (t) => {
    const { agent, client } = await asker(t)
    const decided = client.hxp.decide('Which colour?', ['red', 'green'], { context: 'For the button.', priority: 'high' })
    await answer(agent, 'green', 'Calmer.')
    const { result, reason, receipt, request, verified } = await decided
    assert.deepEqual({ result, reason, verified }, { result: 'green', reason: 'Calmer.', verified: true })
    assert.equal(receipt.request_id, request.id)
    assert.deepEqual(
      { status: request.status, priority: request.priority, payload: request.payload },
      {
        status: 'completed',
        priority: 'high',
        payload: { question: 'Which colour?', options: ['red', 'green'], context: 'For the button.' },
      },
    )
    const approved = client.hxp.approve('Deploy v2', { details: { sha: 'abc' } })
    await answer(agent, 'approved')
    assert.deepEqual([(await approved).result, (await approved).verified], ['approved', true])
    const provided = client.hxp.provide('How many?', { input_type: 'number', validation: { min: 1 } })
    await answer(agent, '42')
    const number: number = (await provided).result
    assert.equal(number, 42)
    const evidence = [{ kind: 'text' as const, text: '4,211 rows' }]
    const verifying = client.hxp.verify('It can be restored', { evidence, context: 'Weekly.' })
    await answer(agent, 'cannot_tell', 'No access.')
    const claim = await verifying
    const verdict: 'confirmed' | 'refuted' | 'cannot_tell' = claim.result
    assert.deepEqual([verdict, claim.reason, claim.verified], ['cannot_tell', 'No access.', true])
    assert.deepEqual(claim.request.payload, { claim: 'It can be restored', evidence, context: 'Weekly.' })
  })

  test('a rejection is an error with the answer and its receipt, so no program continues by mistake', async (t) => {
    const { agent, client } = await asker(t)
    const asked = client.hxp.approve('Delete it', { reject_requires_reason: true }).catch((error: unknown) => error)
    await answer(agent, 'rejected', 'Never.')
    const error = (await asked) as NotApproved
    assert.ok(error instanceof NotApproved)
    assert.deepEqual([error.message, error.reason, error.answer?.result, error.answer?.verified], ['Never.', 'Never.', 'rejected', true])
  })

  test('a timeout is failed, and a withdrawal is cancelled', async (t) => {
    const { agent, client } = await asker(t)
    const failed = await client.hxp.approve('Quick', { timeout_seconds: 1, fallback: 'fail' }).catch((error: unknown) => error)
    assert.ok(failed instanceof NotAnswered)
    assert.deepEqual([failed.status, failed.reason, failed.receipt?.status], ['failed', 'timeout', 'failed'])
    const asked = client.hxp.approve('Later').catch((error: unknown) => error)
    const { request_id } = await opened(agent)
    await client.execution.request.cancel({ request_id, reason: 'Not needed.' })
    const cancelled = await asked
    assert.ok(cancelled instanceof NotAnswered)
    assert.deepEqual([cancelled.status, cancelled.reason], ['cancelled', 'Not needed.'])
  })

  test('a person declines: that is an error of its own, with their words and a verified receipt', async (t) => {
    const { agent, client } = await asker(t)
    const asked = client.hxp.provide('The token?').catch((error: unknown) => error)
    const { request_id, digest } = await opened(agent)
    await owner.execution.request.decline({ request_id, digest, reason: 'Not to a script.' })
    const error = await asked
    assert.ok(error instanceof Declined && error instanceof NotAnswered)
    assert.deepEqual([error.said, error.status, error.reason], ['Not to a script.', 'failed', 'declined: Not to a script.'])
    assert.match(error.message, /^hxp_\w+ was declined: Not to a script\.$/)
  })

  test('an invalid question is refused immediately', async (t) => {
    const { client } = await asker(t)
    await assert.rejects(client.hxp.decide('Which?', ['one']), (error: CountersignError) => error.code === 'INVALID_REQUEST')
    await assert.rejects(client.hxp.approve('x', { key: '' }), TypeError)
  })

  test('replies once to each question of a person, and keeps waiting', async (t) => {
    const { agent, client } = await asker(t)
    const heard: string[] = []
    const asked = client.hxp.approve('Buy it', {
      onQuestion({ text }) {
        heard.push(text)
        return `You asked: ${text}`
      },
    })
    const { request_id } = await opened(agent)
    for (const [i, text] of ['How much?', 'For whom?'].entries()) {
      await owner.execution.request.question({ request_id, text })
      await until(async () => (await owner.execution.inbox.get({ request_id })).thread?.length === 2 * i + 2, `a reply to ${text}`)
    }
    const { thread } = await owner.execution.inbox.get({ request_id })
    assert.deepEqual(
      thread?.map(({ text }) => text),
      ['How much?', 'You asked: How much?', 'For whom?', 'You asked: For whom?'],
    )
    await answer(agent, 'approved')
    assert.equal((await asked).result, 'approved')
    assert.deepEqual(heard, ['How much?', 'For whom?'])
  })
})

describe('asking once', () => {
  test('a program that starts again finds its request under its key, and its answer', async (t) => {
    const { agent, client } = await asker(t)
    const seen: string[] = []
    const onAsked = ({ id }: { id: string }): void => void seen.push(id)
    const leaving = new AbortController()
    const first = client.hxp.approve('Deploy v3', { key: 'deploy/v3', signal: leaving.signal, onAsked }).catch((error: unknown) => error)
    await opened(agent)
    leaving.abort(new Error('killed'))
    assert.equal(((await first) as Error).message, 'killed')
    const again = createClient({ url: stage.server.url, key: agent.key })
    t.after(() => again.close())
    const second = again.hxp.approve('Deploy v3', { key: 'deploy/v3', onAsked })
    await until(() => seen.length === 2, 'it was found again')
    assert.equal(await openCount(agent), 1)
    await answer(agent, 'approved')
    assert.equal((await second).result, 'approved')
    const third = await again.hxp.approve('Deploy v3', { key: 'deploy/v3', onAsked })
    assert.equal(third.result, 'approved', 'also when it was answered while nobody waited')
    assert.deepEqual(new Set(seen).size, 1)
    await assert.rejects(again.hxp.approve('Deploy v4', { key: 'deploy/v3' }), (error: CountersignError) => error.status === 409)
    assert.equal((await again.hxp.outcome(seen[0]!)).result, 'approved')
  })

  test('a server that restarts in between costs nothing', async (t) => {
    const { agent, client } = await asker(t)
    const asked = client.hxp.decide('Still there?', ['yes', 'no'])
    await opened(agent)
    await stage.restart()
    await answer(agent, 'yes')
    const { result, verified } = await asked
    assert.deepEqual({ result, verified }, { result: 'yes', verified: true })
  })

  test('answers that are lost on the way are asked for again, and the request is made once', async (t) => {
    const agent = await stage.agent('cut')
    const lost = { create: 0, await: 0 }
    const watch: Watch = (moment, { operation }) => {
      if (moment === 'answer' && operation === 'execution/request.create' && lost.create++ < 2) return Promise.resolve(false)
      if (moment === 'request' && operation === 'execution/request.await' && lost.await++ < 2) return Promise.resolve(false)
      return Promise.resolve(true)
    }
    const proxy = await openProxy(stage.server.port, watch)
    const client = createClient({ url: proxy.url, key: agent.key })
    t.after(async () => {
      await client.close()
      await proxy.close()
    })
    const asked = client.hxp.approve('Once')
    await until(() => lost.create > 2 && lost.await > 2, 'it goes on')
    assert.equal(await openCount(agent), 1)
    await answer(agent, 'approved')
    assert.equal((await asked).result, 'approved')
  })

  test('a client that is not allowed to wait polls', async (t) => {
    const { agent, client } = await asker(t, ({ key }) => {
      const own = httpTransport({ url: stage.server.url, key })
      return createClient({
        transport: {
          ...own,
          call(operation, input, options) {
            if (operation !== 'execution/request.await') return own.call(operation, input, options)
            return Promise.reject(new CountersignError({ code: 'BUSY', status: 503, message: 'too many wait', retryable: true }))
          },
        },
      })
    })
    const asked = client.hxp.approve('Patience')
    await answer(agent, 'approved')
    assert.equal((await asked).result, 'approved')
  })
})

describe('giving up', () => {
  test('an abort leaves the request open, or withdraws it', async (t) => {
    const { agent, client } = await asker(t)
    const leaving = new AbortController()
    const asked = client.hxp.approve('Leave', { signal: leaving.signal }).catch((error: unknown) => error)
    const { request_id } = await opened(agent)
    leaving.abort(new Error('enough'))
    assert.equal(((await asked) as Error).message, 'enough')
    assert.equal((await client.execution.request.get({ request_id })).request.status, 'pending')
    const withdrawing = new AbortController()
    const again = client.hxp.outcome(request_id, { signal: withdrawing.signal, cancelOnAbort: true }).catch((error: unknown) => error)
    await new Promise((done) => setTimeout(done, 100))
    withdrawing.abort(new Error('for good'))
    assert.equal(((await again) as Error).message, 'for good')
    assert.equal((await client.execution.request.get({ request_id })).request.status, 'cancelled')
    await assert.rejects(client.hxp.approve('x', { signal: AbortSignal.abort(new Error('before')) }), { message: 'before' })
    assert.equal(await openCount(agent), 0)
  })

  test('after its own timeout the program knows that it is still open, or that it was withdrawn', async (t) => {
    const { agent, client } = await asker(t)
    const error = await client.hxp.approve('Slow', { timeoutMs: 300 }).catch((thrown: unknown) => thrown)
    assert.ok(error instanceof NotAnswered)
    assert.deepEqual([error.status, error.receipt], ['pending', null])
    assert.equal(await openCount(agent), 1)
    const withdrawn = await client.hxp.approve('Slower', { timeoutMs: 300, cancelOnAbort: true }).catch((thrown: unknown) => thrown)
    assert.ok(withdrawn instanceof NotAnswered)
    assert.deepEqual([withdrawn.status, withdrawn.request.status], ['cancelled', 'cancelled'])
    assert.equal(await openCount(agent), 1)
  })
})

describe('believing', () => {
  const changed = (change: (answer: any) => void) => (agent: Agent) => {
    const own = httpTransport({ url: stage.server.url, key: agent.key })
    return createClient({
      transport: {
        ...own,
        async call(operation, input, options) {
          const found = (await own.call(operation, input, options)) as any
          if (found.receipt) change(found)
          return found
        },
      },
    })
  }
  for (const [what, reason, change] of [
    ['another result', 'changed', ({ receipt }: any) => (receipt.result = 'rejected')],
    ['no signature', 'not_a_receipt', ({ receipt }: any) => (receipt.signature = null)],
    ['another who', 'changed', ({ receipt }: any) => (receipt.completed_by = 'user_mallory')],
  ] as const) {
    test(`a receipt with ${what} is not believed`, async (t) => {
      const { agent, client } = await asker(t, changed(change))
      const asked = client.hxp.approve('Trust me').catch((error: unknown) => error)
      await answer(agent, 'approved')
      const error = await asked
      assert.ok(error instanceof ReceiptDoubted, String(error))
      assert.equal(error.verdict.reason, reason)
    })
  }

  test('the genuine receipt of another request is not believed', async (t) => {
    const { agent, client } = await asker(t)
    const first = client.hxp.approve('Harmless')
    await answer(agent, 'approved')
    const { receipt } = await first
    const forged = changed((found) => (found.receipt = receipt))(agent)
    t.after(() => forged.close())
    const asked = forged.hxp.approve('Harmful').catch((error: unknown) => error)
    await answer(agent, 'rejected')
    const error = await asked
    assert.ok(error instanceof ReceiptDoubted, String(error))
    assert.equal(error.verdict.reason, 'wrong_request')
  })

  test('with pinned keys, those of another server are refused; unchecked it is taken and said so', async (t) => {
    const { agent, client } = await asker(t)
    const keys = await jwks()
    const others = { keys: keys.keys.map((key: object) => ({ ...key, kid: 'another' })) }
    const asked = client.hxp.approve('Pinned', { keys: others, key: 'pinned' }).catch((error: unknown) => error)
    await answer(agent, 'approved')
    const error = await asked
    assert.ok(error instanceof ReceiptDoubted)
    assert.equal(error.verdict.reason, 'unknown_key')
    assert.equal((await client.hxp.approve('Pinned', { keys, key: 'pinned' })).verified, true)
    assert.equal((await client.hxp.approve('Pinned', { verify: false, key: 'pinned' })).verified, false)
  })

  test('a deadline that was moved changes nothing about what was asked', async (t) => {
    const { agent, client } = await asker(t)
    const asked = client.hxp.approve('Moved', { timeout_seconds: 600 })
    const { request_id } = await opened(agent)
    await owner.execution.request.extend({ request_id, timeout_seconds: 6_000 })
    await answer(agent, 'approved')
    assert.equal((await asked).verified, true)
  })

  test('over a socket and in the same process there are no keys unless they are given', async (t) => {
    const { kernel } = stage.server
    const actorOf = (agent: Agent) => () =>
      authenticateAgain(kernel.store, { subject: agent.id, credential: null, until: null }, kernel.now())
    for (const transportOf of [
      (agent: Agent) => socketTransport({ path: stage.socket, key: agent.key }),
      (agent: Agent) => localTransport(kernel, actorOf(agent)),
    ]) {
      const { agent, client } = await asker(t, (one) => createClient({ transport: transportOf(one) }))
      const unverified = client.hxp.approve('Over there')
      await answer(agent, 'approved')
      assert.equal((await unverified).verified, false)
      const verified = client.hxp.approve('Over there', { keys: await jwks() })
      await answer(agent, 'approved')
      assert.equal((await verified).verified, true)
    }
  })
})

describe('secrets', () => {
  test('are fetched once, and are what the receipt commits to', async (t) => {
    const { agent, client } = await asker(t)
    const asked = client.hxp.provide('The password', { sensitive: true, key: 'password' })
    await answer(agent, 'hunter2')
    const { result, receipt, verified } = await asked
    assert.deepEqual([result, verified], ['hunter2', true])
    assert.ok(!JSON.stringify(receipt).includes('hunter2'))
    await assert.rejects(client.hxp.provide('The password', { sensitive: true, key: 'password' }), { code: 'GONE' })
  })

  test('another one than the receipt commits to is not believed, and one that is lost on the way is not made up', async (t) => {
    for (const [value, expected] of [
      ['hunter3', (error: unknown) => error instanceof ReceiptDoubted && /not the one that was answered/.test(error.message)],
      [null, (error: unknown) => error instanceof CountersignError && error.code === 'GONE'],
    ] as const) {
      const { agent, client } = await asker(t, ({ key }) => {
        const own = httpTransport({ url: stage.server.url, key })
        const call = async (operation: string, input: object, options?: object): Promise<unknown> => {
          const found = (await own.call(operation, input, options)) as object
          return operation === 'execution/secret.take' ? { ...found, value } : found
        }
        return createClient({ transport: { ...own, call } })
      })
      const asked = client.hxp.provide('The password', { sensitive: true }).catch((error: unknown) => error)
      await answer(agent, 'hunter2')
      const error = await asked
      assert.ok(expected(error), String(error))
    }
  })

  test('that are sealed to a key of the agent are opened by it, and are left sealed without it', async (t) => {
    const { agent, client } = await asker(t)
    const { publicKey, privateKey } = generateKeyPairSync('x25519')
    await client.identity.agent.seal_key({ agent_id: agent.id, jwk: publicKey.export({ format: 'jwk' }) as never })
    const unseal = async (sealed: string): Promise<string> => new TextDecoder().decode((await compactDecrypt(sealed, privateKey)).plaintext)
    const asked = client.hxp.provide('The pin', { input_type: 'number', sensitive: true })
    const { request_id } = await opened(agent)
    await answer(agent, '1234')
    assert.equal(((await asked) as any).result.sealed_to, 'agent')
    assert.equal((await client.hxp.outcome(request_id, { unseal })).result, 1234)
  })
})
