// The page in the browser with a long inbox: time to the first row, scrolling, memory, delay of live events, time to paint the next item,
// and the number of live tabs.
import type { Page } from 'playwright-core'
import { openStage, type Stage } from '#test/support/browser/stage.ts'
import { type Bench, type Row } from './report.ts'

const ITEMS = 10_000
const AT_ONCE = 20
const EVENTS = 20
const STEPS = 40
const TABS = 20

const p95 = (values: readonly number[]): number => values.toSorted((one, other) => one - other)[Math.ceil(values.length * 0.95) - 1]!
const row = (what: string, value: number, unit: string, most: number, more = ''): Row => ({
  what,
  value: `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`,
  more,
  goal: { message: `<= ${most} ${unit}`, met: value <= most },
})

async function fill({ ask }: Stage): Promise<void> {
  for (let i = 0; i < ITEMS; i += AT_ONCE)
    await Promise.all(
      Array.from({ length: AT_ONCE }, (_, n) =>
        ask('robin', { item: `Rename report ${i + n}`, details: { from: `a${i + n}`, to: 'b' } }, { risk: `R${((i + n) % 3) + 1}` }),
      ),
    )
}

/** From the request of the address to the first row, in a browser that is signed in. */
async function firstRow(page: Page, url: string): Promise<number> {
  const began = performance.now()
  await page.goto(`${url}/inbox`)
  await page.getByTestId('inbox-row').first().waitFor()
  return performance.now() - began
}

/** The longest task while the list is scrolled through. */
async function scrolled(page: Page): Promise<number> {
  return page.evaluate<number>(`(async () => {
    let longest = 0
    const watch = new PerformanceObserver((list) => { for (const entry of list.getEntries()) longest = Math.max(longest, entry.duration) })
    watch.observe({ entryTypes: ['longtask'] })
    const list = document.querySelector('[data-testid=inbox-list]')
    for (let i = 0; i < 120; i++) { list.scrollTop += 400; await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))) }
    await new Promise((done) => setTimeout(done, 200))
    watch.disconnect()
    return longest
  })()`)
}

async function heap(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = await session.send('Runtime.getHeapUsage')
  return usedSize / 1024 / 1024
}

/** From the answer of the server to the row on the page. */
async function newsOn(page: Page, { ask }: Stage): Promise<number[]> {
  const times: number[] = []
  for (let i = 0; i < EVENTS; i++) {
    const asked = await ask('robin', { item: `News ${i}`, details: {} }, { risk: 'R5', priority: 'high' })
    const began = performance.now()
    await page.locator(`[data-testid=inbox-row][data-request-id="${asked.id}"]`).waitFor({ state: 'attached' })
    times.push(performance.now() - began)
  }
  return times
}

/** From the key to the painted heading of the next item, as the page itself sees it. */
async function steps(page: Page): Promise<number[]> {
  return page.evaluate<number[]>(`(async () => {
    const times = []
    for (let i = 0; i < ${STEPS}; i++) {
      const shown = () => document.querySelector('[data-testid=item-detail]')?.dataset.requestId
      const before = shown()
      const began = performance.now()
      dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true }))
      for (;;) {
        await new Promise((done) => requestAnimationFrame(done))
        if (shown() !== undefined && shown() !== before) break
        if (performance.now() - began > 2000) break
      }
      times.push(performance.now() - began)
      await new Promise((done) => setTimeout(done, 250)) // as somebody reads who is quick
    }
    return times
  })()`)
}

async function liveTabs(stage: Stage): Promise<number> {
  const first = await stage.open('maya')
  const tabs = [first, ...(await Promise.all(Array.from({ length: TABS - 1 }, () => first.context().newPage())))]
  await Promise.all(tabs.slice(1).map((tab) => tab.goto(`${stage.url}/inbox`)))
  await Promise.all(tabs.map((tab) => tab.locator('[data-testid=connection][data-state=live]').waitFor({ timeout: 60_000 })))
  return tabs.length
}

export const page: Bench = {
  name: 'page',
  message: `the page in Chromium with ${ITEMS.toLocaleString('en')} open items`,
  async run(say) {
    const stage = await openStage('whole')
    try {
      await fill(stage)
      say(`${ITEMS.toLocaleString('en')} items are there`)
      const opened = await stage.open('maya')
      await opened.getByTestId('inbox-row').first().waitFor()
      const first = await firstRow(opened, stage.url)
      const longest = await scrolled(opened)
      const megabytes = await heap(opened)
      await opened.goto(`${stage.url}/inbox`)
      await opened.locator('[data-testid=connection][data-state=live]').waitFor()
      const news = await newsOn(opened, stage)
      const painted = await steps(opened)
      const tabs = await liveTabs(stage)
      return [
        row('first row', first, 'ms', 1_000),
        row('longest task while scrolling', longest, 'ms', 100),
        row('heap', megabytes, 'MB', 150),
        row('an event on the page, p95', p95(news), 'ms', 300, `${EVENTS} events`),
        row('J to the next item, p95', p95(painted), 'ms', 50, `${STEPS} steps`),
        { what: 'tabs that are live at a time', value: String(tabs), more: '', goal: { message: `>= ${TABS}`, met: tabs >= TABS } },
      ]
    } finally {
      await stage.close()
    }
  },
}
