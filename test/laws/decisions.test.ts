// One table of laws for every surface that people decide on: the page, the terminal and the command. A yes or a no is only ever what the person meant.
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { Item } from '#protocols/execution/inbox/item.ts'
import { temporary } from '../support/as-processes/cli.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'
import { commandSurface, pageSurface, terminalSurface, type Act, type Surface } from '../support/browser/surfaces.ts'

const names = ['the page', 'the terminal', 'the command'] as const
type Name = (typeof names)[number]

let stage: Stage
let surfaces: Record<Name, Surface>
let closeTerminal: () => Promise<void>
const homes = { 'the terminal': temporary('decisions'), 'the command': temporary('decisions') }
before(async () => {
  stage = await openStage()
  const terminal = terminalSurface({ stage, home: homes['the terminal'] })
  closeTerminal = terminal.close
  surfaces = {
    'the page': pageSurface({ stage, home: '' }, await stage.open('maya')),
    'the terminal': terminal,
    'the command': commandSurface({ stage, home: homes['the command'] }),
  }
})
after(async () => {
  await closeTerminal?.()
  await stage?.close()
  for (const home of Object.values(homes)) rmSync(home, { recursive: true, force: true })
})

// --- What is asked ---------------------------------------------------------------------------------------------------------

/** No title is the beginning of another, and none is found in an id by chance. */
let number = 100_000
const details = { target: 'db-1' }
const high = (): Promise<any> => stage.ask('deployer', { item: `Drop db ${++number}`, details }, { risk: 'R4' })
const low = (item = `Restart ${++number}`, more: object = {}): Promise<any> =>
  stage.ask('deployer', { item, details: {}, ...more }, { risk: 'R1' })
const asking = (action: string, payload: object): Promise<any> => stage.ask('deployer', {}, { action, payload })
const value = (): Promise<any> => asking('PROVIDE', { prompt: `Count ${++number}`, input_type: 'number', validation: { min: 1, max: 10 } })
const choice = (): Promise<any> => asking('DECIDE', { question: `Way ${++number}`, options: ['left', 'right'] })
const claim = (): Promise<any> => asking('VERIFY', { claim: `Claim ${++number}`, evidence: [{ kind: 'text', text: 'All rows.' }] })
const votes = (n: number, ...of: readonly string[]): Promise<any> =>
  stage.ask('deployer', { item: `Pay ${++number}`, details: {} }, { risk: 'R1', quorum: { n, of } })
const quorum = (): Promise<any> => votes(2, 'user_maya', 'user_tom', 'user_ines')

async function task(): Promise<string> {
  const { task: created } = await stage.call('maya', 'collaboration/task.create', { spec: { goal: `Goal ${++number}` } })
  await stage.call('maya', 'collaboration/task.assign', { task_id: created.id, assignee: 'agent_robin' })
  await stage.call('robin', 'collaboration/task.start', { task_id: created.id })
  return created.id
}
/** The one item of a task. */
async function itemOf(task_id: string): Promise<{ id: string }> {
  const { items } = await stage.call('maya', 'execution/inbox.list', { task_id })
  return { id: items[0].request_id }
}
const delivery =
  (...versions: readonly (string | Buffer)[]) =>
  async (): Promise<any> => {
    const task_id = await task()
    let parent: object = {}
    for (const [i, content] of versions.entries()) {
      const payload = { kind: 'inline', uri: `data:application/octet-stream;base64,${Buffer.from(content).toString('base64')}` }
      const { artifact } = await stage.call('robin', 'collaboration/artifact.commit', {
        task_id,
        type: 'code',
        payload,
        final: i === versions.length - 1,
        ...parent,
      })
      parent = { artifact_id: artifact.id, parent_version: artifact.version }
    }
    return itemOf(task_id)
  }
const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')
async function ending(): Promise<any> {
  const task_id = await task()
  await stage.call('robin', 'collaboration/checkpoint.raise', { task_id, kind: 'approval', prompt: `Drop table ${++number}?` })
  return itemOf(task_id)
}
const SCOPE = 'deploy:staging'
const granted = async (): Promise<any> =>
  stage.ask('robin', { item: `Deploy ${++number}`, details: {}, scope: SCOPE }, { risk: 'R1', metadata: { task_id: await task() } })

// --- The laws --------------------------------------------------------------------------------------------------------------

type Leaves = readonly [status: string, result?: unknown, reason?: string]
type Law = {
  readonly law: string
  readonly asked: () => Promise<any>
  readonly act: Act
  /** The status, the result and the reason of the receipt afterwards. */
  readonly leaves: Leaves | ((surface: Name) => Leaves)
}
const OPEN = ['pending'] as const
const APPROVED = ['completed', 'approved'] as const
const laws: readonly Law[] = [
  { law: 'R4 is not approved without its phrase', asked: high, act: { does: 'approve' }, leaves: OPEN },
  { law: 'R4 is not approved by another phrase', asked: high, act: { does: 'approve', phrase: 'wrong' }, leaves: OPEN },
  { law: 'R4 is approved by its phrase', asked: high, act: { does: 'approve', phrase: 'right' }, leaves: APPROVED },
  { law: 'Enter alone neither approves nor rejects', asked: high, act: { does: 'press Enter' }, leaves: OPEN },
  { law: 'a no is never sent as a value', asked: value, act: { does: 'reject' }, leaves: OPEN },
  { law: 'a no is never sent as a choice', asked: choice, act: { does: 'reject' }, leaves: OPEN },
  { law: 'a no is never sent as a verdict on a claim', asked: claim, act: { does: 'reject' }, leaves: OPEN },
  ...['confirmed', 'refuted', 'cannot_tell'].map((result, i): Law => ({
    law: `a claim is answered with ${result} by its own key or word`,
    asked: claim,
    act: { does: 'choose', result, key: String(i + 1) },
    leaves: ['completed', result],
  })),
  { law: 'a value that breaks its rule is not sent', asked: value, act: { does: 'provide', value: '99' }, leaves: OPEN },
  { law: 'a comment goes with a yes', asked: low, act: { does: 'approve', comment: 'Only once.' }, leaves: [...APPROVED, 'Only once.'] },
  ...[value, choice, claim, low].map((asked, i): Law => ({
    law: `${['a value', 'a choice', 'a claim', 'an approval'][i]} can be declined with a reason`,
    asked: () => asked(),
    act: { does: 'decline', reason: 'Not from me.' },
    leaves: ['declined', null, 'declined: Not from me.'],
  })),
  { law: 'nothing is declined without a reason', asked: value, act: { does: 'decline', reason: '' }, leaves: OPEN },
  { law: 'a delivered text is approved where it is shown', asked: delivery('some text'), act: { does: 'approve' }, leaves: APPROVED },
  {
    law: 'a delivered difference is approved where it is shown',
    asked: delivery('old\n', 'new\n'),
    act: { does: 'approve' },
    leaves: APPROVED,
  },
  { law: 'a delivered image is approved on the page alone, which shows it', asked: delivery(PIXEL), act: { does: 'approve' }, leaves: (on) => (on === 'the page' ? APPROVED : OPEN) }, // prettier-ignore
  { law: 'bytes that no surface shows are approved on none', asked: delivery(Buffer.from([1, 0, 2, 255])), act: { does: 'approve' }, leaves: OPEN }, // prettier-ignore
]

const itemAt = async (request_id: string): Promise<Item> => (await stage.call('maya', 'execution/inbox.get', { request_id })).item
const receiptAt = (request_id: string): Promise<any> => stage.call('maya', 'execution/request.get', { request_id })

function holds(name: Name): void {
  for (const { law, asked, act, leaves } of laws)
    test(law, async () => {
      const { id } = await asked()
      const shown = await surfaces[name].act(await itemAt(id), act)
      const { request, receipt } = await receiptAt(id)
      const [status, result, reason] = typeof leaves === 'function' ? leaves(name) : leaves
      assert.deepEqual([request.status, receipt?.result, receipt?.reason], [status, result, reason], shown.slice(-2_000))
      if (receipt) assert.equal(receipt.status, status === 'declined' ? 'failed' : 'completed')
    })

  test('the consequence that is shown is the one that will happen: a vote is one of two', async () => {
    const { id } = await quorum()
    assert.match(await surfaces[name].look(await itemAt(id)), /counts as 1 of 2 approvals/i)
    await surfaces[name].act(await itemAt(id), { does: 'approve' })
    assert.equal((await receiptAt(id)).request.status, 'pending')
  })

  test('a rejection that ends a task says so before, and ends it', async () => {
    const item = await itemAt((await ending()).id)
    assert.ok(item.reject_ends_task)
    assert.match(item.effects.reject, /task (?:ends|is ended)/)
    const state = async (): Promise<string> => (await stage.call('maya', 'collaboration/task.get', { task_id: item.task_id })).task.state
    assert.match(await surfaces[name].look(item), new RegExp(RegExp.escape(item.effects.reject), 'i'))
    assert.notEqual(await state(), 'completed')
    await surfaces[name].act(item, { does: 'reject' })
    assert.equal(await state(), 'completed')
  })

  test('a grant shows the requests that it would have answered, leaves its item open, and allows its scope', async () => {
    const item = await itemAt((await granted()).id)
    const { request_id, task_id } = item
    assert.match(await surfaces[name].act(item, { does: 'grant' }), /would (?:have answered|answer) /)
    assert.equal((await receiptAt(request_id)).request.status, 'pending')
    await stage.call('maya', 'execution/request.resolve', { request_id, result: 'approved' })
    assert.equal((await stage.call('robin', 'collaboration/grant.use', { task_id, scope: SCOPE })).decision, 'allow')
  })

  test('a batch takes nothing that is flagged, unrated or longer than its list shows', async () => {
    const word = `Batch ${++number}`
    const long = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`argument_${i}`, i]))
    const apart = [
      await low(`${word} flagged`, { details: { to: 'pay\u200Bpal' } }),
      await stage.ask('deployer', { item: `${word} unrated`, details: {} }),
      await low(`${word} long`, { details: long }),
    ]
    const items = await Promise.all([...apart, await low(`${word} plain`)].map(({ id }) => itemAt(id)))
    await surfaces[name].approveTogether(word, items)
    for (const { id } of apart) assert.equal((await receiptAt(id)).request.status, 'pending')
  })

  test('with a selection, approving is for the selection and not for the open item', async () => {
    const word = `Batch ${++number}`
    for (const last of ['one', 'two', 'three']) await low(`${word} ${last}`)
    const { items } = await stage.call('maya', 'execution/inbox.list', { text: word })
    const [first, second, open] = await Promise.all(items.map(({ request_id }: Item) => itemAt(request_id)))
    await surfaces[name].approveTogether(word, [first!, second!])
    const states = await Promise.all([first!, second!, open!].map(async ({ request_id }) => (await itemAt(request_id)).status))
    assert.deepEqual(states, ['completed', 'completed', 'pending'])
  })

  test('it speaks for the person it was opened for, even if another person signs in', async () => {
    // Both people can answer it, so only the surface keeps them apart.
    const { id } = await votes(1, 'user_maya', 'user_tom')
    const shown = await surfaces[name].approveBeside(await itemAt(id), 'tom')
    const { status, quorum } = await itemAt(id)
    assert.deepEqual([status, quorum!.yours], name === 'the page' ? ['pending', false] : ['completed', true], shown.slice(-2_000))
  })
}

// Each surface is driven by itself, one law after the other; the three go on side by side.
describe('a decision', { concurrency: 3 }, () => {
  for (const name of names) describe(`on ${name}`, { concurrency: 1 }, () => holds(name))
})
