// Every kind of question in a real browser: each type of answer, checkpoints with their evidence, groups, what is done, and a connection that stands late.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { decided, pressUntil, rowOf, sendNow, until } from '../support/browser/acts.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage?.close())
afterEach(async () => assert.deepEqual(await stage.tidy(), []))

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

  test('to a claim is one of three verdicts, by its button or its key, with a note', async () => {
    const payload = { claim: 'It can be restored', evidence: [{ kind: 'text', text: '4,211 of 4,211 rows' }] }
    const verify = (more: object = {}): Promise<any> => stage.ask('deployer', {}, { action: 'VERIFY', payload, ...more })
    const [first, second, grave] = [await verify(), await verify(), await verify({ risk: 'R4' })]
    const page = await stage.open('maya', `/inbox/${first.id}`)
    assert.match(await page.getByTestId('item-evidence').innerText(), /4,211 of 4,211 rows/)
    await page.getByLabel('Note').fill('One row is missing.')
    await page.getByRole('button', { name: 'Refuted' }).click()
    await decided(page)
    const { result, reason } = await receiptOf(first.id)
    assert.deepEqual([result, reason], ['refuted', 'One row is missing.'])
    await page.goto(`${stage.url}/inbox/${second.id}`)
    await page.getByTestId('item-raw').scrollIntoViewIfNeeded()
    await pressUntil(page, '3', page.getByTestId('undo-toast'))
    await sendNow(page)
    await until(async () => (await receiptOf(second.id)) !== undefined)
    assert.equal((await receiptOf(second.id)).result, 'cannot_tell')
    await page.goto(`${stage.url}/inbox/${grave.id}`)
    const confirmed = page.getByRole('button', { name: 'Confirmed' })
    await confirmed.waitFor()
    assert.equal(await confirmed.getAttribute('aria-disabled'), 'true')
    await page.getByLabel('Confirmation phrase').fill('answer R4')
    // A press counts only once nothing has moved for a moment.
    await until(async () => {
      if (await page.getByTestId('undo-toast').isVisible()) return true
      await confirmed.click()
      return false
    })
    await decided(page)
    assert.equal((await receiptOf(grave.id)).result, 'confirmed')
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

  test('that breaks a rule is refused while it is typed, in words, and is never sent', async () => {
    const details_schema = {
      type: 'object',
      properties: { replicas: { type: 'integer', minimum: 1, maximum: 12 }, zone: { enum: ['a', 'b'] } },
    }
    const edit = await stage.ask('robin', { item: 'Scale it', details: { replicas: 3, zone: 'a' }, details_schema }, { risk: 'R1' })
    const asked = [
      [{ input_type: 'number', validation: { max: 100_000 } }, '999999999', 'Enter a number up to 100,000.', '100000'],
      [{ input_type: 'number', validation: { min: 1, max: 10 } }, 'seven', 'Enter a number from 1 to 10.', '7'],
      [{ input_type: 'email' }, 'nobody', 'Enter an e-mail address, such as name@example.com.', 'somebody@example.com'],
      [{ input_type: 'url' }, 'example.com', 'Enter an address that begins with https:// or http://.', 'https://example.com'],
      [{ input_type: 'text', validation: { pattern: '^[A-Z]+$', max: 9 } }, 'abc', 'Enter a value that matches ^[A-Z]+$.', 'ABC'],
      [{ input_type: 'text', sensitive: true, validation: { min: 8 } }, 'short', 'Enter at least 8 characters.', 'long enough'],
    ] as const
    const page = await stage.open('maya', `/inbox/${edit.id}`)
    const sent: string[] = []
    page.on('request', (request) => request.url().includes('request.resolve') && sent.push(request.url()))
    await page.getByRole('button', { name: 'Edit' }).click()
    for (const [field, wrong, message, right] of [
      ['replicas', '30', 'replicas: Enter a number up to 12.', '12'],
      ['zone', 'c', 'zone: Enter one of: a, b.', 'b'],
    ] as const) {
      await page.getByRole('textbox', { name: field }).fill(wrong)
      await page.getByTestId('edit-diff').getByText(message).waitFor()
      assert.equal(await page.getByRole('button', { name: 'Approve with edits' }).getAttribute('aria-disabled'), 'true')
      await page.getByRole('textbox', { name: field }).fill(right)
      await page.getByTestId('edit-diff').getByText(message).waitFor({ state: 'detached' })
    }
    await shoot(page, 'item-edit')
    for (const [payload, wrong, message, right] of asked) {
      const { id } = await provide({ prompt: `A value for ${message}`, ...payload })
      await page.goto(`${stage.url}/inbox/${id}`)
      await page.getByLabel('Your answer').fill(wrong)
      await page.getByTestId('broken-rule').getByText(message, { exact: true }).waitFor()
      assert.equal(await page.getByRole('button', { name: 'Send answer' }).getAttribute('aria-disabled'), 'true')
      if (right === '100000') await shoot(page, 'broken-rule')
      await page.getByLabel('Your answer').fill(right)
      await page.getByTestId('broken-rule').waitFor({ state: 'detached' })
      await page.getByRole('button', { name: 'Send answer' }).and(page.locator(':not([aria-disabled])')).waitFor()
    }
    assert.deepEqual(sent, [])
  })

  test('that the server refuses is still there, and one button sends what is in the field now', async () => {
    const { id } = await provide({ prompt: 'A number', input_type: 'number', validation: { min: 1, max: 10 } })
    const page = await stage.open('maya', `/inbox/${id}`)
    const refusal = { error: { code: 'INVALID_RESULT', message: 'result must be odd', details: {} } }
    await page.route('**/v1/execution/request.resolve', (route) => route.fulfill({ status: 422, json: refusal }))
    await page.getByLabel('Your answer').fill('6')
    await page.getByRole('button', { name: 'Send answer' }).click()
    await sendNow(page)
    await page.getByTestId('decide-error').waitFor()
    assert.equal(await page.getByLabel('Your answer').inputValue(), '6')
    assert.equal(await page.getByRole('button', { name: 'Try again' }).count(), 0)
    await shoot(page, 'decide-refused')
    await page.unroute('**/v1/execution/request.resolve')
    let isDown = true
    await page.route('**/v1/execution/request.resolve', (route) => (isDown ? route.abort() : route.continue()))
    await page.getByLabel('Your answer').fill('7')
    await page.getByRole('button', { name: 'Send answer' }).click()
    await sendNow(page)
    await page.getByTestId('decide-error').getByText('The server did not answer').waitFor()
    isDown = false
    await page.getByLabel('Your answer').fill('9')
    await page.getByRole('button', { name: 'Try again' }).click()
    await decided(page)
    assert.equal(String((await receiptOf(id)).result), '9')
  })

  test('is declined with a reason, which the agent reads', async () => {
    const asked = [
      await provide({ prompt: 'The root password', input_type: 'text', sensitive: true }),
      await stage.ask('deployer', {}, { action: 'DECIDE', payload: { question: 'Left or right?', options: ['left', 'right'] } }),
    ]
    const page = await stage.open('maya')
    for (const { id } of asked) {
      await page.goto(`${stage.url}/inbox/${id}`)
      await page.getByRole('button', { name: 'Decline' }).click()
      const dialog = page.getByRole('dialog', { name: 'Decline' })
      assert.equal(await dialog.getByRole('button', { name: 'Decline' }).getAttribute('aria-disabled'), 'true')
      await dialog.getByRole('textbox', { name: 'Reason' }).fill('Not over this channel.')
      await dialog.getByRole('button', { name: 'Decline' }).click()
      await decided(page)
      const { request, receipt } = await stage.call('maya', 'execution/request.get', { request_id: id })
      assert.deepEqual([request.status, receipt.reason], ['declined', 'declined: Not over this channel.'])
      assert.match((await rowOf(page, id).textContent())!, /Declined/)
    }
    await shoot(page, 'declined')
  })
})

describe('a review', () => {
  const textOf = (text: string | Buffer): object => ({
    kind: 'inline',
    uri: `data:text/plain;base64,${Buffer.from(text).toString('base64')}`,
  })
  async function delivered(goal: string, ...contents: readonly (string | Buffer)[]): Promise<string> {
    const { id: task_id } = await begun(goal)
    let of: object = {}
    for (const [i, content] of contents.entries()) {
      const about = { task_id, type: 'code', payload: textOf(content), final: i === contents.length - 1, ...of }
      const { artifact } = await stage.call('robin', 'collaboration/artifact.commit', about)
      of = { artifact_id: artifact.id, parent_version: artifact.version }
    }
    const { items } = await stage.call('maya', 'execution/inbox.list', { task_id })
    return items[0].request_id
  }

  test('is approved where it is read: its difference is in the item, to the end', async () => {
    const long = Array.from({ length: 80 }, (_, i) => `line ${i}`).join('\n')
    const id = await delivered('Fix the greeting', long, `${long.replaceAll('line', 'row')}\nlast`)
    const page = await stage.open('maya', `/inbox/${id}`)
    const delivery = page.getByTestId('item-delivery')
    await delivery.getByText('last', { exact: true }).waitFor()
    assert.equal(await delivery.locator('[data-kind=added]').count(), 81)
    assert.equal(await delivery.locator('[data-kind=removed]').count(), 80)
    await shoot(page, 'item-review')
    await pressUntil(page, 'a', page.getByText('Read it to its end first'))
    assert.equal(await page.getByTestId('undo-toast').count(), 0)
    assert.equal(await page.getByRole('button', { name: 'Approve' }).getAttribute('aria-disabled'), 'true')
    await page.getByTestId('item-raw').scrollIntoViewIfNeeded()
    await pressUntil(page, 'a', page.getByTestId('undo-toast'))
    await decided(page)
  })

  test('of something that cannot be shown, or was not loaded, has no Approve', async () => {
    const id = await delivered('Deliver bytes', Buffer.from([1, 0, 2, 0, 255]))
    const page = await stage.open('maya', `/inbox/${id}`)
    await page.getByTestId('delivery-not-shown').waitFor()
    await page.getByRole('button', { name: 'Reject' }).waitFor()
    assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0)
    await page.getByRole('link', { name: 'Open the whole review' }).waitFor()
    await shoot(page, 'item-review-bytes')
    const text = await delivered('Deliver text', 'some words')
    await page.route('**/v1/collaboration/artifact.get*', (route) => route.abort())
    await page.goto(`${stage.url}/inbox/${text}`)
    await page.getByTestId('item-delivery').getByTestId('load-error').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0)
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
    // The only text of the agent is its claim.
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
    await page.getByRole('button', { name: 'End the task' }).waitFor()
    await page.getByLabel('Message to the agent').fill('Slowly, please.')
    await shoot(page, 'item-interrupt')
    await page.getByRole('button', { name: 'Let it go on' }).click()
    await decided(page)
    const { items: told } = await stage.call('maya', 'collaboration/checkpoint.list', { task_id: task.id })
    assert.equal(told.find(({ kind }: any) => kind === 'interrupt').resolution.comment, 'Slowly, please.')
  })

  test('that ends the task says so on its button, and an escalation is answered as what it is', async () => {
    const [ends, task, other] = [await begun('Ends'), await begun('Goes on'), await begun('Goes to another')]
    const id = await raised(ends.id, { kind: 'approval', prompt: 'Drop the table?' })
    const page = await stage.open('maya', `/inbox/${id}`)
    await page.getByRole('button', { name: 'Reject and end the task' }).waitFor()
    const stuck = await raised(task.id, { kind: 'escalation', prompt: 'The signature is refused. What should I do?' })
    await page.goto(`${stage.url}/inbox/${stuck}`)
    const tell = page.getByRole('button', { name: 'Tell the agent' })
    await page.getByRole('button', { name: 'End the task' }).waitFor()
    assert.equal(await tell.getAttribute('aria-disabled'), 'true')
    await page.getByLabel('Message to the agent').fill('Use the new key.')
    await shoot(page, 'item-escalation')
    await tell.click()
    await decided(page)
    assert.equal((await receiptOf(stuck)).reason, 'Use the new key.')
    const handed = await raised(other.id, { kind: 'escalation', prompt: 'I cannot do this.' })
    await page.goto(`${stage.url}/inbox/${handed}`)
    await page.getByRole('button', { name: 'Hand to another agent' }).click()
    const dialog = page.getByRole('dialog', { name: 'Hand to another agent' })
    await dialog.getByRole('combobox', { name: 'Agent' }).fill('Planner')
    await page.getByRole('option', { name: /Planner/ }).click()
    await dialog.getByRole('button', { name: 'Hand to another agent' }).click()
    await until(
      async () => (await stage.call('maya', 'collaboration/task.get', { task_id: other.id })).task.ownership.assignee === 'agent_planner',
    )
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

test('a question asked before the stream is connected is not missed', async () => {
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

test('an option shows its own risk, and a grave one asks for the phrase', async () => {
  const task = await begun('Ways of different weight')
  const id = await raised(task.id, {
    kind: 'choice',
    prompt: 'How shall it be moved?',
    options: [
      { id: 'copy', label: 'Copy it, then switch', risk: 'low' },
      { id: 'move', label: 'Move it in place', risk: 'high' },
    ],
  })
  const page = await stage.open('maya', `/inbox/${id}`)
  await page.getByTestId('option').first().waitFor()
  assert.deepEqual(await page.getByTestId('option-risk').allTextContents(), ['R1 minor', 'R4 high'])
  await page.getByRole('radio', { name: 'Move it in place' }).check()
  await page.getByRole('textbox', { name: 'Confirmation phrase' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Send answer' }).getAttribute('aria-disabled'), 'true')
  await shoot(page, 'item-choice-risk')
  await page.getByRole('radio', { name: 'Copy it, then switch' }).check()
  await page.getByRole('textbox', { name: 'Confirmation phrase' }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Send answer' }).click()
  await decided(page)
})

test('arguments are in the order of the agent, a list of like things is a table, and an amount has its currency', async () => {
  const lines = [
    { text: 'Pallets', net: 1200 },
    { text: 'Transport', net: 80.5 },
  ]
  const details = { supplier: 'Nordwind GmbH', lines, total: 1280.5, currency: 'EUR', because: { zone: 'b', area: 'a' } }
  const asked = await stage.ask('planner', { item: 'Pay the supplier', details }, { risk: 'R2' })
  const page = await stage.open('maya', `/inbox/${asked.id}`)
  const args = page.getByTestId('item-args')
  await args.waitFor()
  const names = await args.locator('tbody > tr > th[scope=row]').allTextContents()
  assert.deepEqual(names, ['supplier', 'lines', 'total', 'currency', 'because.zone', 'because.area'])
  assert.deepEqual(await args.locator('table.rows th').allTextContents(), ['text', 'net'])
  assert.deepEqual(await args.locator('table.rows td').allTextContents(), ['Pallets', '1200 EUR', 'Transport', '80.5 EUR'])
  await args.getByText('1280.5 EUR').waitFor()
  await shoot(page, 'item-arguments')
})
