// Refusals on every button: each status is in words beside it, nothing that was typed is lost, and nothing is called decided.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import type { Page, Route } from 'playwright-core'
import { VARIABLE } from '../simulation/choice.ts'
import { sendNow } from '../support/browser/acts.ts'
import { buttonsOf, TYPED, type Button } from '../support/browser/buttons.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage?.close())
afterEach(() => assert.deepEqual(stage.amiss(), []))

const codes: Readonly<Record<number, string>> = { 401: 'UNAUTHENTICATED', 429: 'QUOTA_EXCEEDED', 503: 'UNAVAILABLE' }
const refusing =
  (status: number) =>
  (route: Route): Promise<void> =>
    route.fulfill({ status, json: { error: { code: codes[status] ?? 'REFUSED', message: `refused with ${status}`, details: {} } } })

const CUT = 0
const outcomes = [401, 403, 404, 408, 409, 410, 413, 422, 429, 503, CUT] as const
const answering = (outcome: number) => (outcome === CUT ? (route: Route): Promise<void> => route.abort() : refusing(outcome))
/** The words that come out of it; a way out of the page says them itself. */
const wordsOf = (outcome: number, name: string): string =>
  outcome === CUT ? 'The server did not answer' : name === 'Sign out' ? `the server answered ${outcome}` : `Refused with ${outcome}.`

/** All outcomes in `npm run test:long`; otherwise some for each button, others for the next one, and others the next time. */
const PER_BUTTON = 2
const choice = process.env[VARIABLE] ?? '0'
/** All of it takes some minutes. */
const WHOLE_MS = 900_000
function outcomesFor(button: number): readonly number[] {
  if (choice === 'all') return outcomes
  return Array.from({ length: PER_BUTTON }, (_, i) => outcomes[(Number(choice) + button * PER_BUTTON + i) % outcomes.length]!)
}

async function isRefused(page: Page, button: Button, outcome: number): Promise<void> {
  await page.route(button.calls, answering(outcome))
  await button.press(page)
  if (outcome === 401) {
    // The way back in is asked for above everything, and what is below it stays.
    await page.getByTestId('signed-out').waitFor()
    await page.unroute(button.calls)
    await page.evaluate("dispatchEvent(new Event('focus'))")
    await page.getByTestId('signed-out').waitFor({ state: 'detached' })
  } else {
    await button.beside(page).getByText(wordsOf(outcome, button.name)).first().waitFor()
    await page.unroute(button.calls)
  }
  if (button.typed) assert.equal(await button.typed(page), button.expected ?? TYPED)
  assert.equal(await page.locator(button.done).count(), 0, 'it is shown as done')
}

test(
  'on every button each status and no answer is words, what was typed stays, and nothing is shown as done',
  { timeout: WHOLE_MS },
  async (t) => {
    const buttons = await buttonsOf(stage)
    const page = await stage.open('maya', '/settings/profile')
    for (const [i, button] of buttons.entries()) {
      // The answer of a way out that is not known any more is the way out itself.
      const tried = outcomesFor(i).filter((outcome) => outcome !== 401 || button.name !== 'Sign out')
      await t.test(`${button.name}: ${tried.map((outcome) => (outcome === CUT ? 'no answer' : outcome)).join(', ')}`, async () => {
        await page.goto(stage.url + button.path)
        await button.prepare(page)
        for (const outcome of tried) await isRefused(page, button, outcome)
      })
    }
    await shoot(page, 'refused')
  },
)

test('a list that could not be loaded is tried again, and refused again', async () => {
  const page = await stage.open('maya', '/settings/profile')
  const calls = '**/v1/execution/inbox.list'
  for (const outcome of outcomesFor(0).filter((one) => one !== 401)) {
    await page.route(calls, answering(outcome))
    await page.goto(`${stage.url}/inbox`)
    for (let i = 0; i < 2; i++) {
      await page.getByTestId('inbox-error').getByText(wordsOf(outcome, '')).waitFor()
      await page.getByTestId('inbox-error').getByRole('button', { name: 'Try again' }).click()
    }
    await page.unroute(calls)
  }
})

test('a task that was created and could not be handed over is shown, and not created twice', async () => {
  const page = await stage.open('maya', '/tasks/new')
  await page.getByLabel('Goal').fill('Made once')
  await page.getByLabel('Agent').fill('Robin')
  await page.route('**/v1/collaboration/task.assign', refusing(403))
  await page.getByRole('button', { name: 'Create task' }).click()
  await page.getByTestId('task-state').waitFor()
  await page.getByTestId('error-toast').getByText('created but not assigned').waitFor()
  await shoot(page, 'error-toast')
})

test('a decision that fails while another item is open is reported', async () => {
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
  // Calls in the background would open the dialog before the click.
  await page.route('**/v1/execution/request.question', refusing(401))
  await page.getByRole('button', { name: 'Send question' }).click()
  await page.getByTestId('signed-out').getByRole('button', { name: 'Try again' }).click({ trial: true })
  await shoot(page, 'signed-out-in-a-dialog')
  await page.unroute('**/v1/execution/request.question')
  await page.evaluate("dispatchEvent(new Event('focus'))")
  await page.getByTestId('signed-out').waitFor({ state: 'detached' })
  assert.equal(await page.getByRole('textbox', { name: 'Question' }).inputValue(), 'Words that stay')
  await page.getByRole('button', { name: 'Send question' }).click()
  await page.getByTestId('item-thread').getByText('Words that stay').waitFor()
})

test('a link with a target stays on this server', async () => {
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
