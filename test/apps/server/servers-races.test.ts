// Races of two servers on one PostgreSQL: both get the same call concurrently. One wins, the other gets the exact refusal, and the
// record shows it once.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { inDatabase, isPostgresOff } from '../../support/as-processes/postgres.ts'
import { sampleOf } from '../../support/as-processes/postgres-stores.ts'
import { enroll, type Answer } from '../../support/as-processes/server.ts'
import { startServers, type Node, type Servers } from '../../support/as-processes/servers.ts'

const ROUNDS = sampleOf(
  Array.from({ length: 100 }, (_, i) => i),
  6,
).length

describe(`two concurrent servers, ${ROUNDS} times each`, { skip: isPostgresOff }, () => {
  const undo: (() => unknown)[] = []
  let servers: Servers
  let [alice, devin, rita, robin] = ['', '', '', '']
  before(async () => {
    servers = await startServers({ after: (work) => void undo.push(work as () => unknown) }, 2)
    const [a] = servers.nodes as [Node]
    ;({ alice, devin } = await enroll(a.port, servers.adminKey))
    await ok(a.call(servers.adminKey, 'identity/user.add', { id: 'user_rita', name: 'Rita' }))
    rita = (await ok(a.call(servers.adminKey, 'identity/key.issue', { subject: 'user_rita' }))).key
    await ok(a.call(servers.adminKey, 'identity/agent.add', { id: 'agent_robin', name: 'Robin', owner: 'user_alice' }))
    robin = (await ok(a.call(servers.adminKey, 'identity/key.issue', { subject: 'agent_robin' }))).key
  })
  after(async () => {
    for (const work of undo.toReversed()) await work()
  })

  const ok = async (answer: Promise<Answer>): Promise<any> => {
    const { status, body } = await answer
    assert.equal(status, 200, JSON.stringify(body))
    return body
  }
  const codeOf = ({ status, body }: Answer): string => (status === 200 ? 'ok' : body.error.code)
  /** Which of the two is sent first changes with each round. */
  async function both(round: number, ...calls: readonly ((node: Node) => Promise<Answer>)[]): Promise<Answer[]> {
    const { nodes } = servers
    const sent = calls.map((call, i) => [i, call] as const)
    if (round % 2 === 1) sent.reverse()
    const answers: Answer[] = []
    await Promise.all(sent.map(async ([i, call]) => (answers[i] = await call(nodes[(i + (round >> 1)) % 2]!))))
    return answers
  }
  const factsOf = async (subject: string, action: string): Promise<number> => {
    const text = `SELECT count(*) AS n FROM countersign.facts WHERE line::json->>'subject' LIKE '%' || $1 AND line::json->>'action' = $2`
    return Number((await inDatabase(servers.url, text, [subject, action]))[0]!['n'])
  }

  async function working(): Promise<string> {
    const [a, b] = servers.nodes as [Node, Node]
    const { task } = await ok(
      a.call(alice, 'collaboration/task.create', { spec: { goal: 'Race' }, reviewers: ['user_alice', 'user_rita'] }),
    )
    await ok(b.call(alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' }))
    await ok(a.call(devin, 'collaboration/task.start', { task_id: task.id }))
    return task.id as string
  }

  test('resolve: of two people who answer one question, one does', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const task = await working()
      const asked = { task_id: task, kind: 'approval', prompt: 'May I?' }
      const { checkpoint } = await ok(servers.nodes[0]!.call(devin, 'collaboration/checkpoint.raise', asked))
      const resolve = (key: string, action: string) => (node: Node) =>
        node.call(key, 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action })
      const codes = (await both(round, resolve(alice, 'approve'), resolve(rita, 'reject'))).map(codeOf)
      assert.deepEqual(codes.toSorted(), ['PRECONDITION_FAILED', 'ok'], String(codes))
      assert.equal(await factsOf(checkpoint.id, 'collaboration/task.checkpoint.resolved'), 1)
    }
  })

  test('claim: an item of a list is taken by one', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const request = { action: 'DECIDE', role: 'pool', payload: { question: 'So?', options: ['Yes', 'No'] } }
      const made = await ok(servers.nodes[1]!.call(devin, 'execution/request.create', request))
      const claim = (key: string) => (node: Node) => node.call(key, 'execution/request.claim', { request_id: made.request.id })
      const codes = (await both(round, claim(alice), claim(rita))).map(codeOf)
      assert.equal(codes.filter((code) => code === 'ok').length, 1, String(codes))
    }
  })

  test('lease: a message that waits is taken by one worker', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { task } = await ok(servers.nodes[0]!.call(alice, 'collaboration/task.create', { spec: { goal: 'Take' } }))
      await ok(servers.nodes[0]!.call(alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_robin' }))
      const take = (worker: string) => (node: Node) => node.call(robin, 'delegation/mailbox.take', { worker, limit: 1 })
      const taken = (await both(round, take('one'), take('two'))).map(({ body }) => body.items.length as number)
      assert.equal(taken[0]! + taken[1]!, 1, String(taken))
    }
  })

  test('key: one idempotency key is one effect, and a revoked key has none afterwards', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const create = (node: Node): Promise<Answer> =>
        node.call(alice, 'collaboration/task.create', { spec: { goal: `Once ${round}` } }, `race-${round}`)
      const answers = await both(round, create, create, create, create)
      assert.equal(new Set(answers.map(({ body }) => body.task?.id)).size, 1, JSON.stringify(answers.map(codeOf)))
      const [a] = servers.nodes as [Node]
      const { key, issued } = await ok(a.call(servers.adminKey, 'identity/key.issue', { subject: 'user_rita' }))
      const use = (node: Node): Promise<Answer> => node.call(key, 'collaboration/task.create', { spec: { goal: 'Mine' } })
      const revoke = (node: Node): Promise<Answer> => node.call(servers.adminKey, 'identity/key.revoke', { key_id: issued.id })
      const [used = '', revoked] = (await both(round, use, revoke)).map(codeOf)
      assert.equal(revoked, 'ok')
      assert.ok(used === 'ok' || used === 'UNAUTHENTICATED', used)
      for (const node of servers.nodes) assert.equal(codeOf(await use(node)), 'UNAUTHENTICATED')
    }
  })

  test('quota: the last free place is given once', async () => {
    const issue = (node: Node): Promise<Answer> => node.call(servers.adminKey, 'identity/key.issue', { subject: 'user_full' })
    await ok(servers.nodes[0]!.call(servers.adminKey, 'identity/user.add', { id: 'user_full', name: 'Full' }))
    for (let i = 1; i < limits.keysPerSubjectMax; i++) await ok(issue(servers.nodes[i % 2]!))
    for (let round = 0; round < ROUNDS; round++) {
      const answers = await both(round, issue, issue)
      assert.deepEqual(answers.map(codeOf).toSorted(), ['QUOTA_EXCEEDED', 'ok'])
      const given = answers.find(({ status }) => status === 200)!.body.issued.id as string
      await ok(servers.nodes[round % 2]!.call(servers.adminKey, 'identity/key.revoke', { key_id: given }))
    }
  })

  test('the same bytes: sent to both they are kept once, and each sender has them', async () => {
    const task = await working()
    for (let round = 0; round < ROUNDS; round++) {
      const bytes = randomBytes(300_000)
      const put = async ({ port }: Node): Promise<Answer> => {
        const headers = { authorization: `Bearer ${alice}`, 'content-type': 'application/octet-stream' }
        const address = `http://127.0.0.1:${port}/v1/collaboration/artifact.upload?task_id=${task}`
        const answer = await fetch(address, { method: 'PUT', headers, body: bytes })
        return { status: answer.status, body: await answer.json() }
      }
      const checksum = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
      for (const { status, body } of await both(round, put, put, put))
        assert.deepEqual([status, body.checksum], [200, checksum], JSON.stringify(body))
      const text = `SELECT (SELECT count(*) FROM countersign.blobs WHERE checksum = $1) AS whole,
        (SELECT count(*) FROM countersign.blob_chunks c JOIN countersign.blobs b ON b.id = c.blob WHERE b.checksum = $1) AS chunks,
        (SELECT count(*) FROM countersign.blobs WHERE checksum IS NULL) AS unfinished`
      const [row] = await inDatabase(servers.url, text, [checksum])
      assert.deepEqual([Number(row!['whole']), Number(row!['chunks']), Number(row!['unfinished'])], [1, 2, 0])
    }
  })

  test('expiry: a question is answered or it expires, never both', async () => {
    const rounds = Math.min(ROUNDS, 20)
    for (let round = 0; round < rounds; round++) {
      const request = { action: 'DECIDE', timeout_seconds: 1, fallback: 'fail', payload: { question: 'So?', options: ['Yes', 'No'] } }
      const made = await ok(servers.nodes[round % 2]!.call(devin, 'execution/request.create', request))
      const { id, expires_at } = made.request
      // About when the timer of whichever server holds it fires.
      await new Promise((done) => setTimeout(done, Math.max(0, Date.parse(expires_at) - Date.now() - 30 + 10 * round)))
      const resolve = (node: Node): Promise<Answer> => node.call(alice, 'execution/request.resolve', { request_id: id, result: 'Yes' })
      const codes = (await both(round, resolve, resolve)).map(codeOf)
      assert.ok(codes.filter((code) => code === 'ok').length <= 1, String(codes))
      const ended = codes.includes('ok') ? 'completed' : 'failed'
      for (let i = 0; ; i++) {
        const { body } = await servers.nodes[i % 2]!.call(alice, 'execution/request.get', { request_id: id })
        if (body.request.status === ended) break
        assert.ok(i < 100, JSON.stringify([codes, body.request.status]))
        await new Promise((done) => setTimeout(done, 100))
      }
    }
    const verified = await ok(servers.nodes[0]!.call(servers.adminKey, 'collaboration/audit.verify', {}))
    assert.equal(verified.valid, true)
  })
})
