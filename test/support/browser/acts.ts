// Acts on the page that many tests share: finding a row, sending what is held without waiting for it, and waiting until something is so.
import assert from 'node:assert/strict'
import type { Locator, Page } from 'playwright-core'

const HELD_MS = 5_000

export const rowOf = (page: Page, id: string): Locator => page.locator(`[data-testid=inbox-row][data-request-id="${id}"]`)

/** A decision that was just made goes out now, as it does when the page is put away: five seconds are not waited for each time. */
export async function sendNow(page: Page): Promise<void> {
  // On a busy machine the five seconds may be over before this looks: then it has gone out by itself, and the next step sees how it went.
  await page
    .getByTestId('undo-toast')
    .waitFor({ timeout: HELD_MS })
    .catch(() => undefined)
  await page.evaluate("dispatchEvent(new Event('pagehide'))")
}
export async function decided(page: Page): Promise<void> {
  await sendNow(page)
  await page.getByTestId('item-decided').waitFor()
}

/** Presses a key until something is there: keys that decide do nothing as long as the item settles, or before it was read to its end. */
export const pressUntil = (page: Page, key: string, there: Locator): Promise<void> =>
  until(async () => {
    if (await there.first().isVisible()) return true
    await page.keyboard.press(key)
    return false
  })

/** Waits until a condition holds. A refusal in the meantime, such as for an item that is not assigned yet, counts as not yet. */
export async function until(check: () => Promise<boolean>): Promise<void> {
  let refused = ''
  for (let tries = 0; tries < 400; tries++) {
    try {
      if (await check()) return
    } catch (error) {
      refused = `: ${(error as Error).message}`
    }
    await new Promise((done) => setTimeout(done, 50))
  }
  assert.fail(`it did not come to that${refused}`)
}
