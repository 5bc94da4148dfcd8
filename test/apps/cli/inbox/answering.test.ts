// Answers by command: a word for one kind of answer is never sent as another, from R4 on a phrase is required, and every question can be declined.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Client } from '#sdk/index.ts'
import { openInbox } from '../../../support/as-processes/inbox-people.ts'

const { owner, agent, run, close } = await openInbox('cli-answering')
after(close)

type Asked = Parameters<Client['execution']['request']['create']>[0]
const asked = async (input: Asked): Promise<string> => (await agent.execution.request.create(input)).request.id
const stateOf = async (request_id: string) => {
  const { request, receipt } = await owner.execution.request.get({ request_id })
  return { status: request.status, result: receipt?.result }
}
const kinds = {
  approval: (): Promise<string> => asked({ action: 'APPROVE', payload: { item: 'Deploy' } }),
  choice: (): Promise<string> => asked({ action: 'DECIDE', payload: { question: 'Where?', options: ['eu', 'us'] } }),
  'choice of yes': (): Promise<string> => asked({ action: 'DECIDE', payload: { question: 'Ship?', options: ['yes', 'no'] } }),
  input: (): Promise<string> => asked({ action: 'PROVIDE', payload: { prompt: 'The token', input_type: 'text', sensitive: true } }),
  selection: (): Promise<string> =>
    asked({
      action: 'PROVIDE',
      payload: { prompt: 'Which?', input_type: 'selection', validation: { allowed_values: ['reject', 'keep'] } },
    }),
} as const

describe('a word for one kind of answer', () => {
  /** The result that is sent; null: refused, and nothing is sent. */
  const rows: readonly [kind: keyof typeof kinds, argv: readonly string[], sent: unknown][] = [
    ['approval', ['approve'], 'approved'],
    ['approval', ['yes'], 'approved'],
    ['approval', ['NO'], 'rejected'],
    ['approval', ['rejected'], 'rejected'],
    ['approval', ['changes'], null],
    ['approval', ['end'], null],
    ['approval', ['maybe'], null],
    ['approval', ['--value', 'approved'], null],
    ['choice', ['eu'], 'eu'],
    ['choice', ['--value', 'us'], 'us'],
    ['choice', ['approve'], null],
    ['choice', ['no'], null],
    ['choice of yes', ['no'], 'no'],
    ['choice of yes', ['reject'], null],
    ['input', ['approve'], null],
    ['input', ['approved'], null],
    ['input', ['reject'], null],
    ['input', ['Reject'], null],
    ['input', ['changes'], null],
    ['input', ['decline'], null],
    ['input', ['yes'], null],
    ['input', ['-'], null],
    ['input', ['--value', 'reject'], 'commitment'],
    ['input', ['--value', '-'], 'commitment'],
    ['input', ['a token'], 'commitment'],
    ['selection', ['reject'], 'reject'],
    ['selection', ['approve'], null],
  ]
  for (const [kind, argv, sent] of rows)
    test(`${argv.join(' ')} for ${kind === 'choice of yes' ? 'a choice between yes and no' : kind} ${sent === null ? 'is refused' : 'counts'}`, async () => {
      const id = await kinds[kind]()
      const ran = await run(['inbox', 'answer', id, ...argv], 'owner', 'reject\n')
      const now = await stateOf(id)
      if (sent === null) {
        assert.deepEqual([ran.code, ran.out, now.status], [2, '', 'pending'], ran.err)
        if (kind === 'input')
          assert.match(
            ran.err,
            /this asks for a value; it cannot be answered with "\w+"\n {2}→ --decline --reason <text> to decline it; --value \w+ for the literal word/,
          )
      } else {
        assert.equal(ran.code, 0, ran.err)
        assert.equal(now.status, 'completed')
        if (sent !== 'commitment') assert.equal(now.result, sent)
      }
      if (sent === null) await agent.execution.request.cancel({ request_id: id })
    })

  test('the bare operation does not send one either', async () => {
    const id = await kinds.input()
    assert.equal((await run(['request', 'resolve', id, 'reject'])).code, 2)
    assert.equal((await stateOf(id)).status, 'pending')
    assert.equal((await run(['request', 'resolve', id, '--json-input', '{"result":"reject"}'])).code, 0)
  })

  test('an answer is one thing', async () => {
    const id = await kinds.input()
    for (const argv of [[], ['a', '--value', 'b'], ['--decline'], ['--decline', '--reason', 'x', 'y'], ['a', '--file', 'b']]) {
      const { code, err } = await run(['inbox', 'answer', id, ...argv])
      assert.equal(code, 2, err)
    }
    assert.equal((await stateOf(id)).status, 'pending')
    await agent.execution.request.cancel({ request_id: id })
  })
})

describe('from R4 on', () => {
  const grave = async (risk: 'R3' | 'R4' | 'R5', more: Partial<Asked> = {}): Promise<[id: string, phrase: string | null]> => {
    const id = await asked({
      action: 'APPROVE',
      risk,
      payload: { item: 'Delete the database', details: { target: 'db-payments-0' } },
      ...more,
    })
    return [id, (await owner.execution.inbox.get({ request_id: id })).item.guard.confirm]
  }
  const ways = [
    ['inbox answer', (id: string) => ['inbox', 'answer', id, 'approve']],
    ['request resolve', (id: string) => ['request', 'resolve', id, 'approved']],
  ] as const
  for (const risk of ['R4', 'R5'] as const)
    for (const [message, argv] of ways)
      test(`${message} of ${risk} needs --confirm and its phrase`, async () => {
        const [id, phrase] = await grave(risk)
        assert.ok(phrase)
        const bare = await run(argv(id))
        assert.deepEqual([bare.code, bare.out], [2, ''])
        assert.match(
          bare.err,
          /needs --confirm with the phrase of the item, .*\n {2}→ read it first: `countersign inbox show hxp_\w+`; then add --confirm "/,
        )
        const wrong = await run([...argv(id), '--confirm', 'yes'])
        assert.deepEqual([wrong.code, /--confirm is not .*; nothing was sent/.test(wrong.err)], [2, true], wrong.err)
        assert.equal((await stateOf(id)).status, 'pending')
        assert.match((await run(['inbox', 'show', id])).out, new RegExp(`^To answer: --confirm ${JSON.stringify(phrase)}$`, 'm'))
        const right = await run([...argv(id), '--confirm', phrase])
        assert.equal(right.code, 0, right.err)
        assert.equal((await stateOf(id)).result, 'approved')
      })

  test('a no needs none, and neither does R3', async () => {
    const [no] = await grave('R5')
    assert.equal((await run(['inbox', 'answer', no, 'reject'])).code, 0)
    const [small] = await grave('R3')
    assert.equal((await run(['inbox', 'answer', small, 'approve'])).code, 0)
  })

  test('a batch takes none of them, and nothing else goes out with them', async () => {
    const [id] = await grave('R4')
    const small = await asked({ action: 'APPROVE', risk: 'R1', payload: { item: 'Small' } })
    const answers: object[] = []
    for (const request_id of [id, small]) {
      const { digest } = (await owner.execution.inbox.get({ request_id })).item
      answers.push({ request_id, digest, result: 'approved' })
    }
    const ran = await run(['inbox', 'resolve', '--json-input', JSON.stringify({ answers })])
    assert.equal(ran.code, 2)
    assert.match(
      ran.err,
      new RegExp(`these cannot be part of a batch; nothing was sent:\\n${id}: R3 and above are decided one at a time\\.`),
    )
    assert.deepEqual([(await stateOf(id)).status, (await stateOf(small)).status], ['pending', 'pending'])
    const alone = await run(['inbox', 'resolve', '--json-input', JSON.stringify({ answers: answers.slice(0, 1) })])
    assert.equal(alone.code, 2, alone.out)
    assert.equal((await stateOf(id)).status, 'pending')
  })
})

describe('declining', () => {
  for (const kind of ['approval', 'choice', 'input'] as const)
    test(`${kind}: the agent gets the reason, and ask ends with exit code 5`, async () => {
      const id = await kinds[kind]()
      const blank = await run(['inbox', 'answer', id, '--decline'])
      assert.deepEqual([blank.code, /--decline needs --reason/.test(blank.err)], [2, true])
      const waiting = run(['ask', 'await', id], 'agent')
      const done = await run(['inbox', 'answer', id, '--decline', '--reason', 'Not from me.'])
      assert.equal(done.code, 0, done.err)
      assert.match(done.out, /^✔ declined: .* \(receipt rcp_\w+\)\n$/)
      const { code, out, err } = await waiting
      assert.deepEqual([code, out], [5, ''])
      assert.match(err, /✖ hxp_\w+ was declined: Not from me\.\n$/)
      assert.equal((await stateOf(id)).status, 'declined')
      const again = JSON.parse((await run(['ask', 'await', id, '--json'], 'agent')).out)
      assert.deepEqual([again.status, again.result, again.reason], ['declined', null, 'declined: Not from me.'])
    })
})

describe('a task that is stuck or was stopped', () => {
  async function started(): Promise<string> {
    const { task } = await owner.collaboration.task.create({ spec: { goal: 'Fix the login' } })
    await owner.collaboration.task.assign({ task_id: task.id, assignee: 'agent_robot' })
    await agent.collaboration.task.start({ task_id: task.id })
    return task.id
  }
  const taskOf = async (task_id: string) => (await owner.collaboration.task.get({ task_id })).task
  const stuck = async (): Promise<[task_id: string, id: string]> => {
    const task_id = await started()
    const { checkpoint } = await agent.collaboration.checkpoint.raise({ task_id, kind: 'escalation', prompt: 'Which key do I use?' })
    return [task_id, checkpoint.id]
  }

  test('tell goes with a text, and the agent gets it', async () => {
    const [task_id, id] = await stuck()
    const mute = await run(['inbox', 'answer', id, 'tell'])
    assert.deepEqual([mute.code, /tell says something to the agent: give it with --reason/.test(mute.err)], [2, true], mute.err)
    for (const word of ['Tell', 'approve']) assert.equal((await run(['inbox', 'answer', id, word])).code, 2, word)
    const told = await run(['inbox', 'answer', id, 'tell', '--reason', 'The staging one.'])
    assert.equal(told.code, 0, told.err)
    assert.equal((await taskOf(task_id)).state, 'in_progress')
    const { checkpoint } = await owner.collaboration.checkpoint.get({ checkpoint_id: id })
    assert.deepEqual([checkpoint.resolution?.action, checkpoint.resolution?.comment], ['approve', 'The staging one.'])
  })

  test('--to hands the task to another agent', async () => {
    const [task_id, id] = await stuck()
    await run(['agent', 'add', 'Kim', '--id', 'agent_kim', '--owner', 'user_owner'], null)
    const handed = await run(['inbox', 'answer', id, '--to', 'kim'])
    assert.equal(handed.code, 0, handed.err)
    assert.match(handed.out, /^✔ handed to agent_kim: .*; it is offline and receives the task when it connects\n$/)
    assert.equal((await taskOf(task_id)).executor, 'agent_kim')
  })

  test('--to is for escalations, goes with the digest, and takes the reason along', async () => {
    const [task_id, id] = await stuck()
    const stale = await run(['inbox', 'answer', id, '--to', 'kim', '--digest', `sha256:${'0'.repeat(64)}`])
    assert.notEqual(stale.code, 0)
    assert.equal((await taskOf(task_id)).executor, 'agent_robot')
    assert.equal((await run(['inbox', 'answer', id, '--to', 'kim', '--reason', 'She knows it.'])).code, 0)
    const { checkpoint } = await owner.collaboration.checkpoint.get({ checkpoint_id: id })
    assert.deepEqual([checkpoint.resolution?.action, checkpoint.resolution?.comment], ['reassign', 'She knows it.'])
    const other = await started()
    const asked = await agent.collaboration.checkpoint.raise({ task_id: other, kind: 'approval', prompt: 'Go?' })
    const refused = await run(['inbox', 'answer', asked.checkpoint.id, '--to', 'kim'])
    assert.deepEqual([refused.code, /--to answers an escalation/.test(refused.err)], [2, true], refused.err)
    assert.equal((await taskOf(other)).executor, 'agent_robot')
    await run(['inbox', 'answer', asked.checkpoint.id, 'reject'])
  })

  test('end ends the task; an interrupt is resumed or ended', async () => {
    const [escalated, id] = await stuck()
    assert.equal((await run(['inbox', 'answer', id, 'resume'])).code, 2, 'a word of interrupts')
    assert.equal((await run(['inbox', 'answer', id, 'end'])).code, 0)
    assert.equal((await taskOf(escalated)).state, 'completed')
    for (const [word, state] of [
      ['resume', 'in_progress'],
      ['end', 'completed'],
    ] as const) {
      const task_id = await started()
      const { checkpoint } = await owner.collaboration.task.interrupt({ task_id, reason: 'Wait.' })
      assert.equal((await run(['inbox', 'answer', checkpoint.id, 'tell', '--reason', 'x'])).code, 2, 'a word of escalations')
      const done = await run(['inbox', 'answer', checkpoint.id, word])
      assert.equal(done.code, 0, done.err)
      assert.equal((await taskOf(task_id)).state, state)
    }
  })
})
