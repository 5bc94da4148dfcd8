// Before an answer at the terminal: the rule behind a risk, who acts for whom, what was answered before; details that are corrected and
// approved; a grant after a look at what it would have answered; and the lists of all that at the command line.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { changesIn } from '#apps/cli/inbox/edit.ts'
import { runInTerminal, type Press, type Ran } from '../../../support/as-processes/cli.ts'
import { openInbox } from '../../../support/as-processes/inbox-people.ts'

const { home, owner, agent, envFor, run, close } = await openInbox('cli-inbox-deciding')
after(close)

const live = (presses: readonly Press[], env: Record<string, string> = {}): Promise<Ran> =>
  runInTerminal(['inbox'], presses, { env: { ...envFor('owner'), ...env }, cwd: home, columns: 100, rows: 40 })
const framesIn = ({ out }: Ran): string[] => out.split('\u001b[H').slice(1).map((frame) => stripVTControlCharacters(frame).replaceAll('\r', '')) // prettier-ignore
const lastFrame = (ran: Ran): string => framesIn(ran).at(-1)!
/** As long as a person needs to read. */
const read = (on: string, pressed: string): Press => [on, pressed, 400]

const details_schema = {
  type: 'object',
  properties: { amount: { type: 'integer', maximum: 100 }, to: { type: 'object' } },
  required: ['amount'],
  additionalProperties: false,
}
const paying = async (): Promise<string> => {
  const payload = { item: 'Pay the bill', details: { amount: 99, to: { name: 'Ann', iban: 'DE1' } }, details_schema }
  return (await agent.execution.request.create({ action: 'APPROVE', payload })).request.id
}

describe('a claim at the terminal', () => {
  const claiming = async (more: object = {}): Promise<string> => {
    const payload = { claim: 'It can be restored', evidence: [{ kind: 'text' as const, text: '4,211 of 4,211 rows' }] }
    return (await agent.execution.request.create({ action: 'VERIFY', payload, ...more })).request.id
  }

  test('is shown with its evidence, is neither approved nor rejected, and is answered by the key of a verdict', async () => {
    const request_id = await claiming()
    const ran = await live([
      read('1-3 choose', 'a'),
      ['Keys for this item', 'r'],
      read('Keys for this item', '2'),
      ['Why?', '\r'],
      ['✔ ', 'q'],
    ])
    const first = framesIn(ran).find((frame) => frame.includes('1-3 choose'))!
    assert.match(first, /It can be restored[^]*4,211 of 4,211 rows/)
    assert.match(first, /1\W+confirmed[^]*2\W+refuted[^]*3\W+cannot_tell/)
    const { receipt } = await owner.execution.request.get({ request_id })
    assert.deepEqual([receipt?.status, receipt?.result], ['completed', 'refuted'], lastFrame(ran))
  })

  test('is declined with a reason', async () => {
    const request_id = await claiming()
    const ran = await live([read('d decline', 'd'), ['Why do you decline it?', 'Not mine.\r'], ['✔ declined', 'q']])
    const { request, receipt } = await owner.execution.request.get({ request_id })
    assert.deepEqual([request.status, receipt?.reason], ['declined', 'declined: Not mine.'], lastFrame(ran))
  })
})

describe('details at the terminal', () => {
  test('are edited in the editor, each changed field is shown first, and the receipt holds them', async () => {
    const request_id = await paying()
    const ran = await live([read('e edit', 'e'), ['Approve so?', 'y\r'], ['✔ approved with edited details', 'q']], {
      VISUAL: "sed -i 's/99/40/; s/DE1/DE2/'",
    })
    assert.equal(ran.code, 0, lastFrame(ran))
    const asked = framesIn(ran).find((frame) => frame.includes('Approve so?'))!
    assert.match(asked, /amount: 99 → 40\n/)
    assert.match(asked, /to\.iban: "DE1" → "DE2"\n/)
    assert.ok(!asked.slice(asked.indexOf('Changed:')).includes('Ann'), 'what stays is not among the changes')
    const { receipt } = await owner.execution.request.get({ request_id })
    assert.deepEqual(receipt?.edited, { amount: 40, to: { name: 'Ann', iban: 'DE2' } })
  })

  test('that break the schema are not sent, and what was typed is there when the editor opens again', async () => {
    const request_id = await paying()
    const seen = join(home, 'seen')
    // The first time too much, the second time what was left there and less.
    const VISUAL = `sh -c 'cat "$1" >> ${seen}; sed -i "s/990/90/; s/99\\b/990/" "$1"' sh`
    const ran = await live(
      [
        read('e edit', 'e'),
        ['Not sent: details.amount must be <= 100. Edit again?', 'y\r'],
        ['amount: 99 → 90', 'n\r'],
        ['Nothing was answered', 'q'],
      ],
      { VISUAL },
    )
    assert.equal(ran.code, 0, lastFrame(ran))
    assert.match(readFileSync(seen, 'utf8'), /"amount": 99,[^]*"amount": 990,/)
    const { request } = await owner.execution.request.get({ request_id })
    assert.equal(request.status, 'pending')
    await agent.execution.request.cancel({ request_id })
  })

  test('are asked for with a schema, answered with other details, and returned to the asker, at the command line', async () => {
    const schema = JSON.stringify(details_schema)
    const ask = ['ask', 'approve', 'Pay', '--details', '{"amount":99}', '--details-schema', schema, '--key', 'pay-1']
    const id = (await run([...ask, '--no-wait'], 'agent')).out.trim()
    for (const [edited, code, message] of [
      ['{"amount":990}', 1, /edited\.amount must be <= 100/],
      ['[1]', 2, /--edited must be a JSON object/],
      ['{', 2, /--edited is not JSON/],
    ] as const) {
      const refused = await run(['inbox', 'answer', id, 'approve', '--edited', edited])
      assert.equal(refused.code, code)
      assert.match(refused.err, message)
    }
    assert.equal((await run(['inbox', 'answer', id, 'approve', '--edited', '{"amount":40}'])).code, 0)
    const answer = await run([...ask, '--quiet'], 'agent')
    assert.deepEqual([answer.code, answer.out], [0, 'approved\n'])
    assert.match(answer.err, /the details were edited/)
    assert.equal((await run([...ask, '--pick', 'receipt.edited.amount'], 'agent')).out, '40\n')
    assert.equal((await run(['ask', 'approve', 'Pay', '--details-schema', '5'], 'agent')).code, 2)
  })

  test('differ by the path of each field', () => {
    assert.deepEqual(changesIn({ a: 1, b: { c: 1, d: [1] }, 'x: y': 1 }, { b: { c: 2, d: [1, 2] }, 'x: y': 2, e: null }), [
      'a: removed',
      'b.c: 1 → 2',
      'b.d: [1] → [1,2]',
      '"x: y": 1 → 2',
      'e: none → null',
    ])
  })
})

describe('before the answer', () => {
  test('the card shows the rule behind the risk, the chain and earlier answers; a grant is given after its preview', async () => {
    await owner.execution.policy.set({ floors: [{ target: 'eu-1', risk: 'R3' }] })
    const { task } = await owner.collaboration.task.create({ spec: { goal: 'Ship it' } })
    await owner.collaboration.task.assign({ task_id: task.id, assignee: 'agent_robot' })
    await agent.collaboration.task.start({ task_id: task.id })
    const ask = async (): Promise<string> => {
      const payload = { item: 'Deploy', details: { target: 'eu-1' }, scope: 'deploy:eu' }
      const metadata = { task_id: task.id }
      return (await agent.execution.request.create({ action: 'APPROVE', risk: 'R1', payload, metadata })).request.id
    }
    await owner.execution.request.resolve({ request_id: await ask(), result: 'approved' })
    await ask()
    const ran = await live([
      read('+ grant', '+'),
      ['deploy:eu when left empty', '\r'],
      ['would have answered 1 of this agent', 'task\r'],
      ['✔ granted: deploy:eu until task', 'q'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    const card = framesIn(ran)[0]!.replaceAll(/\s+/g, ' ')
    assert.match(card, /the agent says R1 of 5 \(minor\); a rule: "?at least R3 for target eu-1, set by user_owner/)
    assert.match(card, /Chain: .*user_owner.* → .*agent_robot.* → target eu-1/)
    assert.match(card, /Before: approved by .*user_owner/)
    assert.match(card, /Approve: the/)
    const { items } = await owner.collaboration.grant.list({})
    assert.deepEqual([items[0]?.scope, items[0]?.until, items[0]?.is_live], ['deploy:eu', 'task', true])
    const [open] = (await owner.execution.inbox.list({})).items
    assert.equal(open?.title, 'Deploy', 'the item itself still waits')
  })

  test('an empty answer, or an invalid time, grants nothing', async () => {
    const before = (await owner.collaboration.grant.list({})).items.length
    const ran = await live([
      read('+ grant', '+'),
      ['deploy:eu when left empty', 'mail:send\r'],
      ['would have answered nothing', 'whenever\r'],
      ['Not a valid time', '+'],
      ['deploy:eu when left empty', '\r'],
      ['would have answered', '\r'],
      ['Nothing was granted', 'q'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    assert.equal((await owner.collaboration.grant.list({})).items.length, before)
  })
})

test('lists of facts before an answer are readable tables', async () => {
  const task_id = (await owner.execution.inbox.list({})).items[0]!.task_id!
  const table = async (...argv: string[]): Promise<string> => {
    const { code, out, err } = await run(argv)
    assert.equal(code, 0, err)
    return out
  }
  assert.match(await table('inbox', '--view', 'row', '--order', 'urgency'), /REQUEST +PRIORITY +RISK .*\n.* R3 .*Deploy/)
  const day = new Date().toISOString().slice(0, 10)
  assert.match(await table('request', 'trends', '--by', 'agent'), new RegExp(`OF +DAY +ASKED +APPROVED.*\\nRobot +${day} +\\d`))
  const preview = await table('grant', 'preview', task_id, 'deploy:*')
  assert.match(preview, /^scope deploy:\* +days 30 +would answer 1 +approved 1 +rejected 0\n/)
  assert.match(preview, /Deploy/)
  assert.match(await table('grant', 'list'), /LIVE +GOAL\n.*deploy:eu.*yes +Ship it/)
  const quiet = ['--quiet-hours.from', '22:00', '--quiet-hours.to', '07:00', '--quiet-hours.zone', 'Europe/Berlin']
  await table('channel', 'add', '--endpoint', 'https://example.com/x', ...quiet)
  assert.match(await table('channel', 'list'), /CHANNEL +KIND .*QUIET.*\n.*webhook.*22:00-07:00 Europe\/Berlin/)
})

test('at the terminal: a value that is a verdict word needs confirmation, a question is declined, a file is sent by its path, and a stuck agent gets a message', async () => {
  const ask = async (input: Parameters<typeof agent.execution.request.create>[0]): Promise<string> =>
    (await agent.execution.request.create(input)).request.id
  const token = await ask({ action: 'PROVIDE', priority: 'critical', payload: { prompt: 'The token', input_type: 'text' } })
  const contract = await ask({ action: 'PROVIDE', priority: 'high', payload: { prompt: 'The contract', input_type: 'file' } })
  writeFileSync(join(home, 'signed.txt'), 'I do.')
  const { task } = await owner.collaboration.task.create({ spec: { goal: 'Fix it' } })
  await owner.collaboration.task.assign({ task_id: task.id, assignee: 'agent_robot' })
  await agent.collaboration.task.start({ task_id: task.id })
  await agent.collaboration.checkpoint.raise({ task_id: task.id, kind: 'escalation', prompt: 'Which key?' })
  const ran = await live([
    read('> !!    input      The token', 'p'),
    ['Your answer', 'reject\r'],
    ['The agent would get the word "reject" as the value. Send it? (y or n)', 'n'],
    read('Nothing was answered', 'd'),
    ['Why do you decline it?', 'I do not have it.\r'],
    read('✔ declined: The token', 'p'),
    ['Path of the file', 'signed.txt\r'],
    read('✔ provided a file', 't'),
    ['Tell the agent what to do', 'The staging one.\r'],
    ['✔ told', 'q'],
  ])
  assert.equal(ran.code, 0, lastFrame(ran))
  const ended = async (request_id: string) => owner.execution.request.get({ request_id })
  assert.deepEqual([(await ended(token)).request.status, (await ended(token)).receipt?.reason], ['declined', 'declined: I do not have it.'])
  assert.equal(((await ended(contract)).receipt!.result as { name: string }).name, 'signed.txt')
  assert.equal((await owner.collaboration.task.get({ task_id: task.id })).task.state, 'in_progress')
})
