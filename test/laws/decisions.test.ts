// One table of laws for every surface that people decide on: the page, the terminal and the command. A yes or a no is only ever what the person meant.
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import type { Locator, Page } from 'playwright-core'
import { inProcess, runInTerminal, temporary, type Press } from '../support/as-processes/cli.ts'
import { pressUntil, sendNow } from '../support/browser/acts.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

let stage: Stage
let page: Page
const home = temporary('decisions')
before(async () => {
  stage = await openStage()
  page = await stage.open('maya')
})
after(async () => {
  await stage?.close()
  rmSync(home, { recursive: true, force: true })
})

/** One intent of a person. `phrase`: what they type where a phrase is asked for. */
type Act =
  | { readonly does: 'approve'; readonly phrase?: 'right' | 'wrong'; readonly comment?: string }
  | { readonly does: 'reject' }
  | { readonly does: 'decline'; readonly reason: string }
  | { readonly does: 'provide'; readonly value: string }
  | { readonly does: 'press Enter' }
type Shown = { readonly text: string }
type Surface = {
  /** The item as the surface shows it before anything is answered. */
  look(id: string): Promise<Shown>
  /** Tries it, however far the surface lets it come. */
  act(id: string, act: Act, phrase: string): Promise<Shown>
}

const typedFor = ({ phrase }: { readonly phrase?: 'right' | 'wrong' }, right: string): string | null =>
  phrase === undefined ? null : phrase === 'right' ? right : 'some other words'

const env = (): Record<string, string> => ({ HOME: home, COUNTERSIGN_URL: stage.url, COUNTERSIGN_KEY: stage.keyOf('maya') })
const command: Surface = {
  async look(id) {
    const { out, err } = await inProcess({ home, env: env() }).run(['inbox', 'show', id])
    return { text: out + err }
  },
  async act(id, act, right) {
    const message: readonly string[] = {
      approve: () => {
        const { phrase, comment } = act as Extract<Act, { does: 'approve' }>
        const typed = typedFor(phrase === undefined ? {} : { phrase }, right)
        return ['approve', ...(typed === null ? [] : ['--confirm', typed]), ...(comment === undefined ? [] : ['--reason', comment])]
      },
      reject: () => ['reject'],
      decline: () => ['--decline', '--reason', (act as { reason: string }).reason],
      provide: () => ['--value', (act as { value: string }).value],
      'press Enter': () => [],
    }[act.does]()
    const { out, err } = await inProcess({ home, env: env() }).run(['inbox', 'answer', id, ...message])
    return { text: out + err }
  },
}

/** As long as a person needs to read: keys that come sooner answer nothing. */
const READ_MS = 400
const terminal: Surface = {
  look: (id) => inTerminal(id, []),
  act(id, act, right) {
    if (act.does === 'reject') return inTerminal(id, [['', 'r', READ_MS]])
    if (act.does === 'press Enter') return inTerminal(id, [['', '\r', READ_MS]])
    if (act.does === 'decline')
      return inTerminal(id, [['', 'd', READ_MS], ['Why do you decline it?', `${act.reason}\r`], [act.reason === '' ? 'Nothing was answered' : '✔ declined', '']]) // prettier-ignore
    if (act.does === 'provide')
      return inTerminal(id, [
        ['', 'p', READ_MS],
        ['Your answer', `${act.value}\r`],
        ['Not answered', ''],
      ])
    const typed = typedFor(act, right)
    const key: Press[] =
      act.comment === undefined
        ? [['', 'a', READ_MS]]
        : [
            ['', 'A', READ_MS],
            ['Why?', `${act.comment}\r`],
          ]
    if (typed !== null)
      return inTerminal(id, [...key, ['to confirm', `${typed}\r`], [act.phrase === 'right' ? '✔ approved' : 'Nothing was answered', '']])
    return inTerminal(id, act.comment === undefined ? key : [...key, ['✔ approved', '']])
  },
}
/** The inbox at a terminal with this item alone in it. */
async function inTerminal(id: string, presses: readonly Press[]): Promise<Shown> {
  const { title } = (await stage.call('maya', 'execution/inbox.get', { request_id: id })).item as { title: string }
  const all: Press[] = [['q quit', '/'], ['', `${title}\r`], [title, '', READ_MS], ...presses, ['', '\u001b'], ['', 'q']]
  const { out } = await runInTerminal(['inbox'], all, { env: env(), cwd: home, columns: 110, rows: 50 })
  return { text: stripVTControlCharacters(out).replaceAll(/\s+/g, ' ') }
}

const inPage: Surface = {
  async look(id) {
    await page.goto(`${stage.url}/inbox/${id}`)
    const detail = page.getByTestId('item-detail')
    await detail.waitFor()
    await page.getByTestId('item-effects').waitFor()
    return { text: (await page.locator('main').innerText()).replaceAll(/\s+/g, ' ') }
  },
  async act(id, act, right) {
    await this.look(id)
    await page.getByTestId('item-raw').scrollIntoViewIfNeeded()
    const toast = page.getByTestId('undo-toast')
    if (act.does === 'press Enter') await page.keyboard.press('Enter')
    else if (act.does === 'reject') await page.keyboard.press('r')
    else if (act.does === 'decline') await declined(act.reason)
    else if (act.does === 'provide') {
      await page.getByLabel('Your answer').fill(act.value)
      await page.getByTestId('broken-rule').waitFor()
      await page.keyboard.press('Control+Enter')
    } else await approved(act, right, toast)
    const shown = { text: (await page.locator('main').innerText()).replaceAll(/\s+/g, ' ') }
    if ((await toast.count()) > 0) {
      await sendNow(page)
      await page.getByTestId('item-decided').waitFor()
    }
    return shown
  },
}
async function declined(reason: string): Promise<void> {
  await page.getByRole('button', { name: 'Decline' }).click()
  const dialog = page.getByRole('dialog', { name: 'Decline' })
  await dialog.getByRole('textbox', { name: 'Reason' }).fill(reason)
  if (reason === '') return page.keyboard.press('Control+Enter')
  await dialog.getByRole('button', { name: 'Decline' }).click()
  await page.getByTestId('undo-toast').waitFor()
}
async function approved(act: Extract<Act, { does: 'approve' }>, right: string, toast: Locator): Promise<void> {
  const typed = typedFor(act, right)
  const field = page.getByRole('textbox', { name: 'Confirmation phrase' })
  if (act.comment !== undefined) {
    await pressUntil(page, 'c', page.getByRole('textbox', { name: 'Comment' }))
    await page.getByRole('textbox', { name: 'Comment' }).fill(act.comment)
    return pressUntil(page, 'Control+Enter', toast)
  }
  await pressUntil(page, 'a', page.locator('[aria-label="Confirmation phrase"]:focus'))
  if (typed !== null) await field.pressSequentially(typed)
  await page.keyboard.press('Enter')
  if (act.phrase === 'right') await toast.waitFor()
}

// --- The laws --------------------------------------------------------------------------------------------------------------

const details = { target: 'db-1' }
const grave = (): Promise<any> => stage.ask('deployer', { item: `Drop db ${++made}`, details }, { risk: 'R4' })
const small = (): Promise<any> => stage.ask('deployer', { item: `Restart ${++made}`, details: {} }, { risk: 'R1' })
const value = (): Promise<any> =>
  stage.ask(
    'deployer',
    {},
    { action: 'PROVIDE', payload: { prompt: `Count ${++made}`, input_type: 'number', validation: { min: 1, max: 10 } } },
  )
const choice = (): Promise<any> =>
  stage.ask('deployer', {}, { action: 'DECIDE', payload: { question: `Way ${++made}`, options: ['left', 'right'] } })
const quorum = (): Promise<any> =>
  stage.ask(
    'deployer',
    { item: `Pay ${++made}`, details: {} },
    { risk: 'R1', quorum: { n: 2, of: ['user_maya', 'user_tom', 'user_ines'] } },
  )
let made = 0

type Law = {
  readonly law: string
  readonly asked: () => Promise<any>
  readonly act: Act
  /** The status, the result and the reason of the receipt afterwards. */
  readonly leaves: readonly [status: string, result?: unknown, reason?: string]
}
const OPEN = ['pending'] as const
const laws: readonly Law[] = [
  { law: 'R4 is not approved without its phrase', asked: grave, act: { does: 'approve' }, leaves: OPEN },
  { law: 'R4 is not approved by another phrase', asked: grave, act: { does: 'approve', phrase: 'wrong' }, leaves: OPEN },
  { law: 'R4 is approved by its phrase', asked: grave, act: { does: 'approve', phrase: 'right' }, leaves: ['completed', 'approved'] },
  { law: 'Enter alone neither approves nor rejects', asked: grave, act: { does: 'press Enter' }, leaves: OPEN },
  { law: 'a no is never sent as a value', asked: value, act: { does: 'reject' }, leaves: OPEN },
  { law: 'a no is never sent as a choice', asked: choice, act: { does: 'reject' }, leaves: OPEN },
  { law: 'a value that breaks its rule is not sent', asked: value, act: { does: 'provide', value: '99' }, leaves: OPEN },
  { law: 'a comment goes with a yes', asked: small, act: { does: 'approve', comment: 'Only once.' }, leaves: ['completed', 'approved', 'Only once.'] }, // prettier-ignore
  ...[value, choice, small].map((asked, i): Law => ({
    law: `${['a value', 'a choice', 'an approval'][i]} can be declined with a reason`,
    asked,
    act: { does: 'decline', reason: 'Not from me.' },
    leaves: ['declined', null, 'declined: Not from me.'],
  })),
  { law: 'nothing is declined without a reason', asked: value, act: { does: 'decline', reason: '' }, leaves: OPEN },
]

const surfaces: Readonly<Record<string, Surface>> = { 'the page': inPage, 'the terminal': terminal, 'the command': command }
// Each surface is driven by itself, one law after the other; the three go on side by side.
describe('a decision', { concurrency: 3 }, () => {
  for (const [name, surface] of Object.entries(surfaces))
    describe(`on ${name}`, { concurrency: 1 }, () => {
      for (const {
        law,
        asked,
        act,
        leaves: [status, result, reason],
      } of laws)
        test(law, async () => {
          const { id } = await asked()
          const { item } = await stage.call('maya', 'execution/inbox.get', { request_id: id })
          const shown = await surface.act(id, act, item.guard.confirm)
          const { request, receipt } = await stage.call('maya', 'execution/request.get', { request_id: id })
          assert.deepEqual([request.status, receipt?.result, receipt?.reason], [status, result, reason], shown.text.slice(-2_000))
          if (receipt) assert.equal(receipt.status, status === 'declined' ? 'failed' : 'completed')
          else await stage.call('deployer', 'execution/request.cancel', { request_id: id })
        })

      test('the consequence that is shown is the one that will happen: a vote is one of two', async () => {
        const { id } = await quorum()
        assert.match((await surface.look(id)).text, /1 of 2/)
        await stage.call('deployer', 'execution/request.cancel', { request_id: id })
      })
    })
})
