// Refusals on every button: each status is in words beside it, nothing that was typed is lost, and nothing is called decided.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Locator, Page, Route } from 'playwright-core'
import { sendNow } from '../support/browser/acts.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage?.close())
afterEach(() => assert.deepEqual(stage.amiss(), []))

const statuses = [403, 404, 408, 409, 410, 413, 422, 429, 503] as const
const codes: Readonly<Record<number, string>> = { 429: 'QUOTA_EXCEEDED', 503: 'UNAVAILABLE' }
const refusing =
  (status: number) =>
  (route: Route): Promise<void> =>
    route.fulfill({ status, json: { error: { code: codes[status] ?? 'REFUSED', message: `refused with ${status}`, details: {} } } })

type Try = {
  readonly name: string
  readonly operation: string
  /** Where the button is, with everything filled in. */
  prepare(page: Page): Promise<void>
  /** Presses it, and again after a refusal. */
  press(page: Page): Promise<void>
  /** Where the words are to be. */
  beside(page: Page): Locator
  /** The text that was typed, which must still be there. */
  typed?(page: Page): Locator
}
const dialogTry = (name: string, operation: string, field: string, button = name): Try => ({
  name,
  operation,
  async prepare(page) {
    await page.getByRole('button', { name, exact: true }).click()
    await page.getByRole('dialog', { name }).getByLabel(field).fill('Words that stay')
  },
  press: (page) => page.getByRole('dialog', { name }).getByRole('button', { name: button, exact: true }).click(),
  beside: (page) => page.getByRole('dialog', { name }),
  typed: (page) => page.getByRole('dialog', { name }).getByLabel(field),
})

/** Tries each status in turn, then no answer at all. */
async function tried(page: Page, one: Try, which: readonly number[]): Promise<void> {
  await one.prepare(page)
  const path = `**/v1/${one.operation}`
  for (const status of which) {
    await page.route(path, refusing(status))
    await one.press(page)
    await one.beside(page).getByText(`Refused with ${status}.`).first().waitFor()
    if (one.typed) assert.equal(await one.typed(page).inputValue(), 'Words that stay', `${one.name} ${status}`)
    await page.unroute(path)
  }
  await page.route(path, (route) => route.abort())
  await one.press(page)
  await one.beside(page).getByText('The server did not answer').first().waitFor()
  if (one.typed) assert.equal(await one.typed(page).inputValue(), 'Words that stay', `${one.name} without an answer`)
  await page.unroute(path)
}

async function taskOf(state: 'begun' | 'delivered'): Promise<string> {
  const { task } = await stage.call('maya', 'collaboration/task.create', { spec: { goal: 'Try everything', acceptance_criteria: [] } })
  await stage.call('maya', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_robin' })
  await stage.call('robin', 'collaboration/task.start', { task_id: task.id })
  if (state === 'delivered')
    await stage.call('robin', 'collaboration/artifact.commit', {
      task_id: task.id,
      type: 'text',
      payload: { kind: 'inline', uri: `data:text/plain;base64,${Buffer.from('one\ntwo\n').toString('base64')}` },
    })
  return task.id
}

describe('each status is words, and what was typed stays', () => {
  test('on the decision itself', async () => {
    const { id } = await stage.ask('robin', {}, { action: 'PROVIDE', payload: { prompt: 'A word', input_type: 'text' } })
    const page = await stage.open('maya', `/inbox/${id}`)
    await tried(
      page,
      {
        name: 'Send answer',
        operation: 'execution/request.resolve',
        prepare: (at) => at.getByLabel('Your answer').fill('Words that stay'),
        async press(at) {
          await at.getByRole('button', { name: 'Send answer' }).click()
          await sendNow(at)
        },
        beside: (at) => at.getByTestId('decide-error'),
        typed: (at) => at.getByLabel('Your answer'),
      },
      statuses,
    )
    assert.equal(await page.getByTestId('item-decided').count(), 0)
    assert.equal((await stage.call('maya', 'execution/request.get', { request_id: id })).request.status, 'pending')
    await shoot(page, 'refused')
  })

  test('on what is beside it', async () => {
    const { id } = await stage.ask('robin', { item: 'Something', details: {} }, { risk: 'R1', timeout_seconds: 864_000 })
    const page = await stage.open('maya', `/inbox/${id}`)
    await tried(page, dialogTry('Ask back', 'execution/request.question', 'Question', 'Send question'), [403, 429])
    await page.getByRole('dialog', { name: 'Ask back' }).getByRole('button', { name: 'Cancel' }).click()
    const plain = (name: string, operation: string, prepare: (dialog: Locator) => Promise<void> = () => Promise.resolve()): Try => ({
      name,
      operation,
      async prepare(at) {
        await at.getByRole('button', { name, exact: true }).click()
        await prepare(at.getByRole('dialog', { name }))
      },
      press: (at) => at.getByRole('dialog', { name }).getByRole('button', { name, exact: true }).click(),
      beside: (at) => at.getByRole('dialog', { name }),
    })
    for (const one of [
      plain('Snooze', 'execution/request.snooze'),
      plain('Extend', 'execution/request.extend'),
      plain('Escalate', 'execution/request.escalate'),
      plain('Reassign', 'execution/request.assign', (dialog) => dialog.getByRole('combobox', { name: 'Person' }).fill('user_tom')),
    ]) {
      await tried(page, one, [409])
      await page.getByRole('dialog', { name: one.name }).getByRole('button', { name: 'Cancel' }).click()
    }
    const pool = await stage.ask('robin', { item: 'For anybody', details: {} }, { risk: 'R1', role: 'pool' })
    await page.goto(`${stage.url}/inbox/${pool.id}?tab=all`)
    await page.route('**/v1/execution/request.claim', refusing(409))
    await page.getByRole('button', { name: 'Claim' }).click()
    await page.getByText('Refused with 409.').first().waitFor()
  })

  test('on tasks, reviews, the record and the settings', async () => {
    const [task, review] = [await taskOf('begun'), await taskOf('delivered')]
    const page = await stage.open('maya', `/tasks/${task}`)
    await tried(page, dialogTry('Amend', 'collaboration/task.amend', 'Instruction'), [422])
    await page.getByRole('button', { name: 'Cancel', exact: true }).click()
    for (const [name, operation] of [
      ['Interrupt', 'task.interrupt'],
      ['Take over', 'task.takeover'],
      ['Cancel task', 'task.cancel'],
    ] as const) {
      await tried(page, dialogTry(name, `collaboration/${operation}`, 'Reason'), [409])
      await page.getByRole('button', { name: 'Cancel', exact: true }).click()
    }
    await page.goto(`${stage.url}/tasks/new`)
    await tried(
      page,
      {
        name: 'Create task',
        operation: 'collaboration/task.create',
        prepare: (at) => at.getByLabel('Goal').fill('Words that stay'),
        press: (at) => at.getByRole('button', { name: 'Create task' }).click(),
        beside: (at) => at.getByTestId('refused'),
        typed: (at) => at.getByLabel('Goal'),
      },
      [403, 422],
    )
    await page.goto(`${stage.url}/reviews/${review}`)
    await tried(
      page,
      {
        name: 'Submit review',
        operation: 'collaboration/review.submit',
        async prepare(at) {
          await at.getByRole('radio', { name: 'Request changes' }).check()
          await at.getByRole('textbox', { name: 'What must change' }).fill('Words that stay')
        },
        press: (at) => at.getByRole('button', { name: 'Submit review' }).click(),
        beside: (at) => at.getByTestId('refused'),
        typed: (at) => at.getByRole('textbox', { name: 'What must change' }),
      },
      [409, 410],
    )
    await page.goto(`${stage.url}/record`)
    await page.route('**/v1/collaboration/audit.verify', refusing(403))
    await page.getByRole('button', { name: 'Verify' }).click()
    await page.getByText('Refused with 403.').waitFor()
    await page.goto(`${stage.url}/settings/sessions`)
    await page.route('**/v1/identity/session.close', refusing(403))
    await page.getByRole('button', { name: 'End' }).first().click()
    await page.getByTestId('error-toast').getByText('Refused with 403.').waitFor()
    await shoot(page, 'error-toast')
  })
})

test('a decision that fails while another item is looked at is told', async () => {
  const [one, other] = [
    await stage.ask('robin', { item: 'Fails behind your back', details: {} }, { risk: 'R1' }),
    await stage.ask('robin', { item: 'Another one', details: {} }, { risk: 'R1' }),
  ]
  const page = await stage.open('maya', `/inbox/${one.id}`)
  await page.route('**/v1/execution/request.resolve', refusing(403))
  await page.getByRole('button', { name: 'Approve' }).click()
  await page.getByTestId('undo-toast').waitFor()
  await page.locator(`[data-testid=inbox-row][data-request-id="${other.id}"]`).click()
  await page.locator(`[data-testid=item-detail][data-request-id="${other.id}"]`).waitFor()
  await sendNow(page)
  await page.getByTestId('error-toast').getByText('Fails behind your back').waitFor()
  // It lies over nothing that decides, neither there nor on a phone.
  for (const [width, height] of [
    [1280, 800],
    [390, 844],
  ] as const) {
    await page.setViewportSize({ width, height })
    for (const name of ['Approve', 'Reject']) await page.getByRole('button', { name }).click({ trial: true })
  }
})

test('a session that has ended asks to sign in, and comes back with what was typed', async () => {
  const asked = await stage.ask('robin', {}, { action: 'PROVIDE', payload: { prompt: 'Another word', input_type: 'text' } })
  const page = await stage.open('maya', `/inbox/${asked.id}`)
  await page.getByLabel('Your answer').fill('still here')
  await page.getByRole('button', { name: 'Send answer' }).click()
  await page.getByTestId('undo-toast').waitFor()
  // The page may hear of it before the answer leaves.
  await page.context().clearCookies()
  await page.evaluate("dispatchEvent(new Event('pagehide'))")
  await page.getByTestId('signed-out').waitFor()
  await page.goto(await stage.link('maya', `/inbox/${asked.id}`))
  assert.equal(await page.getByLabel('Your answer').inputValue(), 'still here')
})

test('in a dialog, too: it is asked for above the dialog, whose words are there afterwards', async () => {
  const asked = await stage.ask('robin', { item: 'Ask me something', details: {} }, { risk: 'R1' })
  const page = await stage.open('maya', `/inbox/${asked.id}`)
  await page.getByRole('button', { name: 'Ask back' }).click()
  await page.getByRole('textbox', { name: 'Question' }).fill('Words that stay')
  await page.route('**/v1/**', refusing(401))
  await page.getByRole('button', { name: 'Send question' }).click()
  await page.getByTestId('signed-out').getByRole('button', { name: 'Try again' }).click({ trial: true })
  await shoot(page, 'signed-out-in-a-dialog')
  await page.unroute('**/v1/**')
  await page.evaluate("dispatchEvent(new Event('focus'))")
  await page.getByTestId('signed-out').waitFor({ state: 'detached' })
  assert.equal(await page.getByRole('textbox', { name: 'Question' }).inputValue(), 'Words that stay')
  await page.getByRole('button', { name: 'Send question' }).click()
  await page.getByTestId('item-thread').getByText('Words that stay').waitFor()
})

test('a link that goes on somewhere stays on this server', async () => {
  for (const next of ['https://evil.example/', '//evil.example', '/\\evil.example', 'javascript:alert(1)']) {
    const answer = await fetch(await stage.link('tom', next), { redirect: 'manual' })
    assert.ok(!/evil|javascript/.test(answer.headers.get('location') ?? ''), `${next}: ${answer.headers.get('location')}`)
  }
})

test('offline, nothing can be decided, and what is shown stays', async () => {
  const asked = await stage.ask('robin', { item: 'While nobody answers', details: {} }, { risk: 'R1' })
  const page = await stage.open('maya', `/inbox/${asked.id}`)
  await page.getByRole('button', { name: 'Approve' }).waitFor()
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  await page.context().setOffline(true)
  await page.locator('[data-testid=connection][data-state=offline]').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Approve' }).getAttribute('aria-disabled'), 'true')
  await page.getByText('You are offline').waitFor()
  await shoot(page, 'offline')
  // Nothing is kept for later either: it is refused now, with what was typed.
  await page.getByRole('button', { name: 'Ask back' }).click()
  await page.getByRole('textbox', { name: 'Question' }).fill('Sent by mistake?')
  await page.getByRole('button', { name: 'Send question' }).click()
  await page.getByRole('dialog', { name: 'Ask back' }).getByText('The server did not answer').waitFor()
  await page.getByRole('dialog', { name: 'Ask back' }).getByRole('button', { name: 'Cancel' }).click()
  await page.context().setOffline(false)
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  assert.deepEqual((await stage.call('maya', 'execution/inbox.get', { request_id: asked.id })).thread ?? [], [])
})
