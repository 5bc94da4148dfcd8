// Authority: every operation of every protocol x every kind of caller, and bodies that lie about who sends them. The contents of lists, counts and
// refusals are in conformance/visibility.test.ts, credentials in conformance/credentials.test.ts.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { bookkeeping } from '#kernel/log/outbox-document.ts'
import { noNotary } from '#kernel/ports/notary.ts'
import { isPostgresOff } from '../support/as-processes/postgres.ts'
import { postgresMaker, sampleOf } from '../support/as-processes/postgres-stores.ts'
import { inputOf } from '../support/in-process/examples.ts'
import { columns, letters, matrix } from '../support/laws/matrix.ts'
import { again, linesOf, refusalOf, stage } from '../support/in-process/stage.ts'
import { operationsOf, protocols, rolesSteps, stateHash } from '../support/in-process/world.ts'

const served = operationsOf(protocols)
const sceneOf = (name: string) => {
  const { protocol, op } = served.find((one) => one.name === name)!
  return { scene: protocol.scenes[op.example.given]!, op }
}

describe('the matrix', () => {
  test('every operation has a row, every row an operation, and every row a letter for each actor', () => {
    assert.deepEqual(Object.keys(matrix).toSorted(), served.map(({ name }) => name).toSorted())
    for (const [name, row] of Object.entries(matrix)) assert.match(letters(row).join(''), /^[yun]{16}$/, name)
  })

  test('an operation has a role for agents where the table has an agent that may call it, and where only the scene is of another', () => {
    const agents = ['devin', 'robin', 'spy'] as const
    const elsewhere = served.flatMap(({ name, op }) => {
      const row = letters(matrix[name]!)
      const isTheirs = agents.some((who) => row[columns.indexOf(who)] === 'y')
      const isForAgents = op.callers.some((role) => role.isForAgents === true)
      assert.ok(isForAgents || !isTheirs, name)
      return isForAgents && !isTheirs ? [name] : []
    })
    assert.deepEqual(elsewhere, [
      'collaboration/task.get',
      'delegation/agent.steer',
      'delegation/agent.cancel',
      'execution/channel.confirm',
      'execution/channel.stop',
      'execution/channel.remove',
      'execution/channel.rotate',
      'execution/channel.test',
      'harness/harness.abort',
      'harness/harness.session',
      'harness/harness.events',
    ])
  })

  const postgres = postgresMaker()
  after(() => postgres.dispose())
  const usual = Object.entries(matrix).map(([name, row]) => ({ name, row, open: undefined, where: '' }))
  const sample = (isPostgresOff ? [] : sampleOf(usual, 3)).map((one) => ({ ...one, open: postgres.open, where: ', on PostgreSQL as well' }))
  for (const { name, row, open, where } of [...usual, ...sample]) {
    test(`${name} is for those whom the table says, and refused to the others in the words of the table${where}`, async () => {
      const { scene, op } = sceneOf(name)
      const prepared = await stage(scene)
      await prepared.world.play(rolesSteps)
      for (const [i, letter] of letters(row).entries()) {
        const on = await again(prepared, open)
        const untouched = await stateHash(on.world.store)
        const answer = await on.call(columns[i]!, name, inputOf(op.example, on.refs)).then(
          () => 'y',
          (error: { code: string }) => error.code,
        )
        const message = `${name} by ${columns[i]}`
        if (letter === 'y') assert.equal(answer, op.example.refused ?? 'y', message)
        else assert.match(answer, letter === 'u' ? /^UNAUTHORIZED$/ : /^(AGENT_|RUN_)?NOT_FOUND$/, message)
        if (letter !== 'y') assert.equal(await stateHash(on.world.store), untouched, `${message}: nothing changes`)
      }
      if (open !== undefined) return
      // Where a part of the server is missing, callers who may not call it are refused as ever, and do not learn that.
      const bare = await again(prepared, undefined, { terms: { harness: null }, perform: null, notary: noNotary })
      for (const [i, letter] of letters(row).entries())
        if (letter !== 'y') {
          const { code } = await refusalOf(bare.call(columns[i]!, name, inputOf(op.example, bare.refs)))
          assert.match(code, letter === 'u' ? /^UNAUTHORIZED$/ : /^(AGENT_|RUN_)?NOT_FOUND$/, `${name} by ${columns[i]}, without parts`)
        }
    })
  }

  test("the kernel's own bookkeeping is for the system alone", async () => {
    const on = await stage()
    for (const op of bookkeeping.operations)
      for (const who of columns.filter((one) => one !== 'system'))
        await on.refused('UNAUTHORIZED', who, `kernel/${op.name}`, inputOf(op.example, {}))
  })
})

const made = /([a-z]+_)[0-9A-HJKMNP-TV-Z]{26}/g
/** Whole values alone: if an id is part of a secret, showing the secret is the right. */
const named = new RegExp(`"${made.source}"`, 'g')
describe('foreign documents', () => {
  for (const name of Object.keys(matrix)) {
    test(`${name} tells outsiders of what is there no other thing than of what is not`, async () => {
      const { scene, op } = sceneOf(name)
      const prepared = await stage(scene)
      const input = JSON.stringify(inputOf(op.example, prepared.refs))
      const elsewhere = input.replaceAll(named, '"$101J0K7M4N8Y7Q2W3E4R5T6Y7V8"')
      if (elsewhere === input) return
      for (const who of ['mallory', 'spy'] as const) {
        if (letters(matrix[name]!)[columns.indexOf(who)] === 'y') continue
        const said = async (body: string): Promise<string> => {
          const on = await again(prepared)
          return on.call(who, name, JSON.parse(body) as object).then(
            () => 'done',
            ({ code, message }: { code: string; message: string }) => `${code} ${message.replaceAll(made, '$1…')}`,
          )
        }
        assert.equal(await said(input), await said(elsewhere), who)
      }
    })
  }
})

const claimPaths = `actor actor_id by caller_id principal produced_by raised_by requested_by resolved_by reviewer submitted_by user_id
  agent_id ownership.principal provenance.produced_by resolution.by`.split(/\s+/)
/** Where a field of that name means something else than who is calling. */
const declared: Readonly<Record<string, readonly string[]>> = {
  'identity/user.update': ['user_id'],
  'identity/login.issue': ['user_id'],
  'identity/subject.link': ['user_id'],
  'identity/agent.update': ['agent_id'],
  'identity/agent.seal_key': ['agent_id'],
  'delegation/agent.publish': ['agent_id'],
  'delegation/card.sync': ['agent_id'],
  'delegation/agent.retire': ['agent_id'],
  'delegation/run.admit': ['agent_id'],
  'delegation/webhook.rotate': ['agent_id'],
  'delegation/mailbox.take': ['agent_id'],
  'execution/request.create': ['agent_id'], // of the agent that a project's key asks for
  'delegation/run.fence': ['agent_id'],
  'collaboration/checkpoint.ask': ['raised_by'], // whose request it is
  'execution/request.close': ['by'], // who has answered
  'delegation/card.declare': ['agent_id'],
  'delegation/card.pin': ['agent_id'],
  'execution/request.mirror': ['agent_id'], // as a harness calls itself
  'harness/harness.declare': ['agent_id'],
  'harness/harness.allow': ['caller_id'],
  'harness/harness.disallow': ['caller_id'],
  'harness/message.receive': ['user_id'], // as the broker says
  'harness/message.refuse': ['user_id'],
  'harness/harness.decide': ['by'], // who has decided
  'delegation/agent.resume': ['resolution.by'], // a resolution names who resolved
}
const claim = (path: string, id: string): object => {
  const [outer, inner] = path.split('.') as [string, string | undefined]
  return inner === undefined ? { [outer]: id } : { [outer]: { [inner]: id } }
}

describe('a body that lies', () => {
  for (const { name, op } of served.filter((one) => one.op.kind === 'command')) {
    test(`${name} refuses every field that names another actor, writes it down, and takes the caller's own id`, async () => {
      const prepared = await stage(sceneOf(name).scene)
      const { as } = op.example
      const paths = claimPaths.filter((path) => !(declared[name] ?? []).includes(path))
      const on = await again(prepared)
      for (const path of paths) {
        const before = (await linesOf(on.world)).length
        const lie = { ...inputOf(op.example, on.refs), ...claim(path, as === 'bob' ? 'user_alice' : 'user_bob') }
        const refusal = await on.refused('UNAUTHORIZED', as, name, lie)
        assert.match(refusal.message, new RegExp(`^${path} names another actor`), `${name} ${path}`)
        const written = (await linesOf(on.world)).slice(before)
        // No denial is recorded for the system: its mistakes are bugs.
        if (as !== 'system') assertDenial(written, on.world.cast[as]!.id, name)
      }
      const own = on.world.cast[as]!.id
      const honest = Object.assign({}, inputOf(op.example, on.refs), ...paths.map((path) => claim(path, own))) as object
      const calling = on.call(as, name, honest)
      if (op.example.refused) assert.equal((await refusalOf(calling)).code, op.example.refused)
      else await calling
    })
  }
})

function assertDenial(written: any[], actor: string, operation: string): void {
  assert.deepEqual(
    written.map((line) => [line.action, line.actor, line.detail.operation, line.images]),
    [['kernel/authorization.denied', actor, operation, []]],
  )
}
