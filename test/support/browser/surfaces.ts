// The surfaces that people decide on, behind one interface: the page, the terminal and the command. Each is opened once and takes one item after the other.
import { setTimeout as wait } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import type { Page } from 'playwright-core'
import type { Item } from '#protocols/execution/inbox/item.ts'
import { inProcess, lineOf, openTerminal, type Terminal } from '../as-processes/cli.ts'
import { pressUntil, sendNow } from './acts.ts'
import type { Stage } from './stage.ts'

/** One intent of a person. `phrase`: the text that they type if a phrase is asked for. */
export type Act =
  | { readonly does: 'approve'; readonly phrase?: 'right' | 'wrong'; readonly comment?: string }
  | { readonly does: 'reject' }
  | { readonly does: 'decline'; readonly reason: string }
  | { readonly does: 'provide'; readonly value: string }
  | { readonly does: 'choose'; readonly result: string; readonly key: string }
  | { readonly does: 'grant' }
  | { readonly does: 'press Enter' }
type Approval = Extract<Act, { does: 'approve' }>

export type Surface = {
  /** The item as the surface shows it before anything is answered. */
  look(item: Item): Promise<string>
  /** Tries it, as far as the surface lets it come, and returns all that was shown. */
  act(item: Item, act: Act): Promise<string>
  /** Tries to approve several items of a filtered list in one go; the item after them is the one that is open. */
  approveTogether(filter: string, items: readonly Item[]): Promise<string>
  /** Tries to approve an item after another person has signed in at the same place. */
  approveBeside(item: Item, other: 'tom'): Promise<string>
}

const typedFor = ({ phrase }: Approval, { guard }: Item): string =>
  phrase === undefined ? '' : phrase === 'right' ? guard.confirm! : 'some other words'
const isJudged = ({ action, kind }: Item): boolean => action === 'APPROVE' || kind === 'review'
const oneLine = (text: string): string => stripVTControlCharacters(text).replaceAll(/\s+/g, ' ')

/** Longer than the inbox at a terminal takes an item for unread. */
const READ_MS = 300

type Place = { readonly stage: Stage; readonly home: string }
const envOf = ({ stage, home }: Place): Record<string, string> => ({
  HOME: home,
  COUNTERSIGN_URL: stage.url,
  COUNTERSIGN_KEY: stage.keyOf('maya'),
})

// --- The command -----------------------------------------------------------------------------------------------------------

export function commandSurface(place: Place): Surface {
  const { stage, home } = place
  const run = async (argv: readonly string[], input?: string): Promise<string> => {
    const { out, err } = await inProcess({ home, env: envOf(place) }).run(argv, input)
    return out + err
  }
  const wordsFor: { readonly [D in Act['does']]: (item: Item, act: Extract<Act, { does: D }>) => readonly string[] } = {
    approve: (item, act) => [
      'approve',
      ...(act.phrase === undefined ? [] : ['--confirm', typedFor(act, item)]),
      ...(act.comment === undefined ? [] : ['--reason', act.comment]),
    ],
    reject: () => ['reject'],
    decline: (_, { reason }) => ['--decline', '--reason', reason],
    provide: (_, { value }) => ['--value', value],
    choose: (_, { result }) => [result],
    grant: () => [],
    'press Enter': () => [],
  }
  return {
    look: ({ request_id }) => run(['inbox', 'show', request_id]),
    async act(item, act) {
      if (act.does === 'grant') {
        const about = [item.task_id!, (item.card as { payload: { scope: string } }).payload.scope]
        const preview = await run(['grant', 'preview', ...about])
        return preview + (await run(['grant', 'add', ...about, '--decision', 'allow', '--until', 'task']))
      }
      return run(['inbox', 'answer', item.request_id, ...wordsFor[act.does](item, act as never)])
    },
    approveTogether: (_, items) =>
      run(
        ['inbox', 'resolve'].concat(
          items.flatMap(({ request_id, digest }) => ['--answers', JSON.stringify({ request_id, digest, result: 'approved' })]),
        ),
      ),
    async approveBeside(item, other) {
      const { COUNTERSIGN_KEY: _, ...env } = envOf(place)
      const stored = await inProcess({ home, env }).run(['login', '--url', stage.url], stage.keyOf(other))
      return oneLine(stored.out + stored.err) + (await run(['inbox', 'answer', item.request_id, 'approve']))
    },
  }
}

// --- The terminal ----------------------------------------------------------------------------------------------------------

export function terminalSurface(place: Place): Surface & { close(): Promise<void> } {
  let session: Terminal | null = null
  async function press(key: string, shows: RegExp): Promise<string> {
    session!.press(key)
    return reach(shows)
  }
  async function reach(shows: RegExp): Promise<string> {
    const shown = await session!.until(shows)
    if (shown === null) throw new Error('the inbox has ended')
    return oneLine(shown)
  }
  async function open(filter: string, of?: Item): Promise<string> {
    if (session === null) {
      session = openTerminal(lineOf(['inbox']), { env: envOf(place), cwd: place.home, columns: 110, rows: 50 })
      await reach(/q quit/)
    }
    session.press('/')
    await reach(/Filter: words/)
    session.press(`\u0015${filter}\r`)
    // The last line of the screen: what is above it has been drawn.
    return read(
      new RegExp(`\\d with filter: ${RegExp.escape(filter)}[^]*── 1 of${of?.kind === 'review' ? '[^]*Delivered:' : ''}[^]*q quit`, 'u'),
    )
  }
  /** The inbox ignores deciding keys until the item was on the screen for a moment. */
  async function read(shows: RegExp): Promise<string> {
    const shown = await reach(shows)
    await wait(READ_MS)
    return shown
  }
  /** After a failure the next item begins with a new session. */
  async function attempt(work: () => Promise<string>): Promise<string> {
    try {
      return await work()
    } catch (error) {
      await close()
      throw error
    }
  }
  async function close(): Promise<void> {
    session?.press('\u0003')
    await session?.end()
    session = null
  }
  const acts: { readonly [D in Act['does']]: (item: Item, act: Extract<Act, { does: D }>) => Promise<string> } = {
    async approve(item, act) {
      const sent = /✔ approved|cannot be shown here/
      const phrase = item.guard.confirm === null ? sent : /Type "[^"]*" to confirm/
      if (act.comment === undefined) {
        const shown = await press('a', phrase)
        if (item.guard.confirm === null) return shown
      } else {
        await press('A', /Why\?/)
        if (item.guard.confirm === null) return press(`${act.comment}\r`, sent)
        await press(`${act.comment}\r`, phrase)
      }
      return press(`${typedFor(act, item)}\r`, /✔ approved|Nothing was answered/)
    },
    async reject(item) {
      if (!isJudged(item)) return press('r', /Keys for this item/)
      return (await press('r', /\(y or n\)|✔ rejected/)) + (item.reject_ends_task ? await press('y', /✔ rejected/) : '')
    },
    async decline(_, { reason }) {
      await press('d', /Why do you decline it\?/)
      return press(`${reason}\r`, reason === '' ? /Nothing was answered/ : /✔ declined/)
    },
    async provide(_, { value }) {
      await press('p', /Your answer/)
      return press(`${value}\r`, /result must be|✔ provided/)
    },
    async choose(_, { key, result }) {
      const sent = new RegExp(`✔ answered "${result}"`)
      if (result === 'confirmed') return press(key, sent)
      await press(key, /Why\?/)
      return press('\r', sent)
    },
    async grant() {
      await press('+', /Allow which scope/)
      const preview = await press('\r', /until: task, session/)
      return preview + (await press('task\r', /ranted|llowed/))
    },
    // It opens the item, and goes back from it.
    'press Enter': async () => (await press('\r', /esc back/)) + (await press('\r', /\/ filter/)),
  }
  const act: Surface['act'] = (item, one) =>
    attempt(async () => (await open(item.title, item)) + (await acts[one.does](item, one as never)))
  return {
    look: (item) => attempt(() => open(item.title, item)),
    act,
    approveTogether: (filter, items) =>
      attempt(async () => {
        await open(filter)
        for (const [i] of items.entries()) {
          session!.press(' ')
          await read(new RegExp(`approve ${i + 1} `, 'u'))
        }
        return press('a', /goes alone|✔ approved: \d+ items/)
      }),
    async approveBeside(item, other) {
      await attempt(() => open(item.title, item))
      const { COUNTERSIGN_KEY: _, ...env } = envOf(place)
      await inProcess({ home: place.home, env }).run(['login', '--url', place.stage.url], place.stage.keyOf(other))
      return attempt(() => acts.approve(item, { does: 'approve' }))
    },
    close,
  }
}

// --- The page --------------------------------------------------------------------------------------------------------------

export function pageSurface({ stage }: Place, page: Page): Surface {
  const toast = page.getByTestId('undo-toast')
  const textOf = async (shown: Page = page): Promise<string> => oneLine(await shown.locator('body').innerText())
  async function look({ request_id }: Item): Promise<string> {
    await page.goto(`${stage.url}/inbox/${request_id}`)
    await page.getByTestId('item-detail').waitFor()
    await page.getByTestId('item-effects').waitFor()
    return textOf()
  }
  const acts: { readonly [D in Act['does']]: (item: Item, act: Extract<Act, { does: D }>) => Promise<unknown> } = {
    async approve(item, act) {
      if (act.comment !== undefined) {
        const field = page.getByRole('textbox', { name: 'Comment' })
        await pressUntil(page, 'c', field)
        await field.fill(act.comment)
        return pressUntil(page, 'Control+Enter', toast)
      }
      if (item.guard.confirm === null) return pressUntil(page, 'a', toast.or(page.getByTestId('delivery-not-shown')))
      await pressUntil(page, 'a', page.locator('[aria-label="Confirmation phrase"]:focus'))
      // An `a` that was pressed while the field got its focus went into it.
      const field = page.getByRole('textbox', { name: 'Confirmation phrase' })
      await field.fill('')
      await field.pressSequentially(typedFor(act, item))
      // The page ignores Enter for a moment after something has moved.
      if (act.phrase === 'right') await pressUntil(page, 'Enter', toast)
      else await page.keyboard.press('Enter')
    },
    async reject(item) {
      if (!isJudged(item)) return page.keyboard.press('r')
      await pressUntil(page, 'r', page.getByRole('dialog', { name: 'Reject' }))
      await pressUntil(page, 'Control+Enter', toast)
    },
    async decline(_, { reason }) {
      await page.getByRole('button', { name: 'Decline' }).click()
      const dialog = page.getByRole('dialog', { name: 'Decline' })
      await dialog.getByRole('textbox', { name: 'Reason' }).fill(reason)
      if (reason === '') return page.keyboard.press('Control+Enter')
      await dialog.getByRole('button', { name: 'Decline' }).click()
      await toast.waitFor()
    },
    async provide(_, { value }) {
      await page.getByLabel('Your answer').fill(value)
      await page.getByTestId('broken-rule').waitFor()
      await page.keyboard.press('Control+Enter')
    },
    choose: (_, { key }) => pressUntil(page, key, toast),
    async grant() {
      await page.getByRole('button', { name: 'Grant' }).click()
      const dialog = page.getByRole('dialog', { name: 'Grant' })
      await dialog.getByRole('radio', { name: 'The whole task' }).check()
      await dialog.getByText('would have answered').waitFor()
      const shown = await textOf()
      await dialog.getByRole('button', { name: 'Grant' }).click()
      await dialog.waitFor({ state: 'detached' })
      return shown
    },
    'press Enter': () => page.keyboard.press('Enter'),
  }
  return {
    look,
    async act(item, act) {
      await look(item)
      await page.getByTestId('item-raw').scrollIntoViewIfNeeded()
      const before = await acts[act.does](item, act as never)
      const shown = `${typeof before === 'string' ? before : ''} ${await textOf()}`
      if ((await toast.count()) > 0) {
        await sendNow(page)
        await page.getByTestId('item-decided').or(page.getByText('Your vote is recorded')).first().waitFor()
      }
      return shown
    },
    async approveTogether(filter, items) {
      await page.goto(`${stage.url}/inbox?text=${encodeURIComponent(filter)}`)
      for (const { title } of items) await page.getByRole('checkbox', { name: `Select ${title}`, exact: true }).check()
      await page.getByTestId('batch-bar').waitFor()
      const dialog = page.getByRole('dialog', { name: 'Approve selected' })
      await pressUntil(page, 'a', dialog)
      const shown = await textOf()
      await dialog.getByRole('button', { name: 'Approve selected' }).click()
      await page.getByTestId('batch-result').first().waitFor()
      return shown
    },
    async approveBeside(item, other) {
      const mine = await stage.open('maya', `/inbox/${item.request_id}`)
      await mine.getByTestId('item-detail').waitFor()
      const theirs = await mine.context().newPage()
      await theirs.goto(await stage.link(other, '/inbox'))
      await theirs.getByRole('button', { name: /^Sign in as/ }).click()
      await mine.getByTestId('other-person').waitFor()
      await mine.keyboard.press('a')
      // A decision that the page holds must not go out later.
      if ((await mine.getByTestId('undo-toast').count()) > 0) await Promise.all([mine.waitForResponse('**/request.resolve'), sendNow(mine)])
      return textOf(mine)
    },
  }
}
