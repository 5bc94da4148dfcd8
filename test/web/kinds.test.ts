// Every kind of question in a real browser: each type of answer, checkpoints with their evidence, groups, what is done, and a connection that stands late.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { decided, rowOf, sendNow, until } from '../support/browser/acts.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage?.close())
afterEach(() => assert.deepEqual(stage.amiss(), []))

const provide = (payload: object): Promise<any> => stage.ask('deployer', {}, { action: 'PROVIDE', payload })
const receiptOf = async (request_id: string): Promise<any> => (await stage.call('maya', 'execution/request.get', { request_id })).receipt
async function begun(goal: string): Promise<any> {
  const { task } = await stage.call('maya', 'collaboration/task.create', { spec: { goal, acceptance_criteria: [] } })
  await stage.call('maya', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_robin' })
  await stage.call('robin', 'collaboration/task.start', { task_id: task.id })
  return task
}
async function raised(task_id: string, checkpoint: object): Promise<string> {
  await stage.call('robin', 'collaboration/checkpoint.raise', { task_id, ...checkpoint })
  const { items } = await stage.call('maya', 'execution/inbox.list', { task_id })
  return items[0].request_id
}

describe('an answer', () => {
  test('of each type is typed or chosen, and arrives as it was given', async () => {
    const asked = [
      [await provide({ prompt: 'How many?', input_type: 'number', validation: { min: 1, max: 10 } }), '7', '7'],
      [await provide({ prompt: 'Where is it?', input_type: 'url' }), 'https://example.com/a', 'https://example.com/a'],
      [await provide({ prompt: 'Whom do we write to?', input_type: 'email' }), 'a@example.com', 'a@example.com'],
      [await provide({ prompt: 'Tell us more', input_type: 'text' }), 'two\nlines', 'two\nlines'],
    ] as const
    const page = await stage.open('maya')
    for (const [{ id }, typed, result] of asked) {
      await page.goto(`${stage.url}/inbox/${id}`)
      await page.getByLabel('Your answer').fill(typed)
      await page.getByRole('button', { name: 'Send answer' }).click()
      await decided(page)
      assert.equal(String((await receiptOf(id)).result), result)
    }
  })

  test('is one of a selection, or several of it', async () => {
    const one = await provide({ prompt: 'Which colour?', input_type: 'selection', validation: { allowed_values: ['red', 'green'] } })
    const several = await provide({
      prompt: 'Which days?',
      input_type: 'selection',
      validation: { allowed_values: ['Monday', 'Tuesday', 'Friday'], multiple: true },
    })
    const page = await stage.open('maya', `/inbox/${one.id}`)
    assert.equal(await page.getByRole('button', { name: 'Send answer' }).getAttribute('aria-disabled'), 'true')
    await page.getByRole('radio', { name: 'green' }).check()
    await page.getByRole('button', { name: 'Send answer' }).click()
    await decided(page)
    assert.equal((await receiptOf(one.id)).result, 'green')
    await page.goto(`${stage.url}/inbox/${several.id}`)
    for (const day of ['Monday', 'Friday']) await page.getByRole('checkbox', { name: day, exact: true }).check()
    await shoot(page, 'item-selection')
    await page.getByRole('button', { name: 'Send answer' }).click()
    await decided(page)
    assert.deepEqual((await receiptOf(several.id)).result, ['Monday', 'Friday'])
  })

  test('that the server refuses is still there, and is sent again as it is', async () => {
    const { id } = await provide({ prompt: 'A number', input_type: 'number', validation: { min: 1, max: 10 } })
    const page = await stage.open('maya', `/inbox/${id}`)
    await page.getByLabel('Your answer').fill('70')
    await page.getByRole('button', { name: 'Send answer' }).click()
    await sendNow(page)
    await page.getByTestId('decide-error').waitFor()
    assert.equal(await page.getByLabel('Your answer').inputValue(), '70')
    await shoot(page, 'decide-refused')
    await page.getByLabel('Your answer').fill('8')
    let isDown = true
    await page.route('**/v1/execution/request.resolve', (route) => (isDown ? route.abort() : route.continue()))
    await page.getByRole('button', { name: 'Send answer' }).click()
    await sendNow(page)
    await page.getByTestId('decide-error').getByText('The server did not answer').waitFor()
    isDown = false
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByTestId('item-decided').waitFor()
    assert.equal(String((await receiptOf(id)).result), '8')
  })
})

describe('a checkpoint', () => {
  test('shows its evidence: texts, artifacts, and addresses that nothing goes to', async () => {
    const task = await begun('Move the archive')
    const { artifact } = await stage.call('robin', 'collaboration/artifact.commit', {
      task_id: task.id,
      type: 'report',
      payload: { kind: 'inline', uri: `data:text/plain;base64,${Buffer.from('all fine').toString('base64')}` },
      final: false,
    })
    const id = await raised(task.id, {
      kind: 'approval',
      prompt: 'Move it now?',
      context: [
        { kind: 'text', text: 'The disk is nearly full.' },
        { kind: 'artifact', artifact_id: artifact.id, version: artifact.version },
        { kind: 'link', uri: 'https://evil.example/report', title: 'The report' },
      ],
    })
    const page = await stage.open('maya', `/inbox/${id}`)
    const evidence = page.getByTestId('item-evidence')
    await evidence.getByText('https://evil.example/report').waitFor()
    // The one text of the agent is its claim, and stands there alone.
    await page.getByTestId('item-claim').getByText('The disk is nearly full.').waitFor()
    assert.equal(await evidence.getByText('The disk is nearly full.').count(), 0)
    assert.equal(await page.locator('a[href*="evil.example"]').count(), 0)
    await shoot(page, 'item-evidence')
    const saved = page.waitForEvent('download')
    await evidence.getByRole('button', { name: 'Download' }).click()
    await saved
  })

  test('with options is a choice, with a state an edit, and an interruption is answered', async () => {
    const task = await begun('Choose a way')
    const choice = await raised(task.id, {
      kind: 'choice',
      prompt: 'Which way?',
      options: [
        { id: 'a', label: 'The short one', risk: 'low' },
        { id: 'b', label: 'The safe one', risk: 'low' },
      ],
    })
    const page = await stage.open('maya', `/inbox/${choice}`)
    await page.getByRole('radio', { name: 'The safe one' }).check()
    await page.getByRole('button', { name: 'Send answer' }).click()
    await decided(page)
    const state = await raised(task.id, {
      kind: 'approval',
      prompt: 'Go on from here?',
      state: { batch: 100, dry: true },
      state_schema: { type: 'object', properties: { batch: { type: 'integer' }, dry: { type: 'boolean' } }, additionalProperties: false },
    })
    await page.goto(`${stage.url}/inbox/${state}`)
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByRole('textbox', { name: 'batch' }).fill('ten')
    await page.getByTestId('edit-diff').getByText('must stay a number').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Approve with edits' }).getAttribute('aria-disabled'), 'true')
    await page.getByRole('textbox', { name: 'batch' }).fill('10')
    await page.getByRole('button', { name: 'Approve with edits' }).click()
    await decided(page)
    const { items } = await stage.call('maya', 'collaboration/checkpoint.list', { task_id: task.id })
    assert.deepEqual(items.find(({ kind }: any) => kind === 'approval').resolution.state_patch, { batch: 10 })
    await stage.call('maya', 'collaboration/task.interrupt', { task_id: task.id, reason: 'Wait' })
    await page.goto(`${stage.url}/inbox`)
    const row = page.locator('[data-testid=inbox-row][data-kind=interrupt]')
    await row.click()
    await page.getByTestId('item-detail').waitFor()
    await shoot(page, 'item-interrupt')
  })
})

describe('the tabs', () => {
  test('groups has what came to a group, done what has ended', async () => {
    await stage.call('maya', 'execution/group.set', { name: 'on-call', members: ['user_tom', 'user_ines'] })
    const asked = await stage.ask('robin', { item: 'Page somebody', details: {} }, { risk: 'R2' })
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    await page.getByRole('button', { name: 'Escalate' }).click()
    await page.getByRole('combobox', { name: 'Person' }).fill('on-call')
    await page.getByRole('option', { name: /Group on-call/ }).click()
    await page.getByRole('dialog', { name: 'Escalate' }).getByRole('button', { name: 'Escalate' }).click()
    const tom = await stage.open('tom', '/inbox')
    await until(async () => {
      await tom.getByTestId('filter-groups').click()
      return (await rowOf(tom, asked.id).count()) === 1
    })
    await rowOf(tom, asked.id).click()
    await tom.getByRole('button', { name: 'Approve' }).click()
    await decided(tom)
    await tom.getByTestId('filter-done').click()
    await rowOf(tom, asked.id).waitFor()
    assert.equal(await rowOf(tom, asked.id).getAttribute('data-state'), 'ended')
    await shoot(tom, 'inbox-done')
  })
})

test('what is asked before the connection stands is not missed', async () => {
  const page = await stage.open('ines', '/inbox?tab=all')
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  const [held, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  // Without its ticket no socket is opened.
  await page.route('**/v1/*/*ticket*', async (route) => {
    held.resolve()
    await opened.promise
    await route.continue()
  })
  await page.reload()
  await page.getByTestId('inbox-list').or(page.getByTestId('inbox-empty')).waitFor()
  await held.promise
  const asked = await stage.ask('scribe', { item: 'Asked in between', details: {} }, { role: 'pool', risk: 'R1' })
  opened.resolve()
  await rowOf(page, asked.id).waitFor()
})

test('news that come without a pause are shown all the same', async () => {
  const page = await stage.open('ines', '/settings/profile')
  const heard: string[] = []
  page.on('websocket', (socket) => socket.on('framereceived', ({ payload }) => heard.push(String(payload))))
  await page.clock.install()
  await page.goto(`${stage.url}/inbox?tab=all`)
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  await page.getByTestId('inbox-list').or(page.getByTestId('inbox-empty')).waitFor()
  await page.clock.pauseAt(Date.now() + 60_000)
  // Each comes before the page would look for the one before it, if that were put off by the next.
  const asked: string[] = []
  for (let i = 0; i < 4; i++) {
    const { id } = await stage.ask('scribe', { item: `Steady ${i}`, details: {} }, { role: 'pool', risk: 'R1' })
    asked.push(id)
    await until(async () => heard.some((frame) => frame.includes(id)))
    await page.clock.runFor(30)
  }
  await rowOf(page, asked[0]!).waitFor()
})

test('a clock that is ten minutes off changes no deadline', async () => {
  const asked = await stage.ask('robin', { item: 'By the clock of the server', details: {} }, { timeout_seconds: 1_800 })
  const page = await stage.open('maya', '/settings/profile')
  await page.clock.install({ time: Date.now() + 600_000 })
  await page.goto(`${stage.url}/inbox/${asked.id}`)
  await page
    .getByTestId('item-deadline')
    .getByText(/2[5-9] min left/)
    .waitFor()
})
