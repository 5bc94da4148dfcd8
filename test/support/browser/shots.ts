// Screenshots of every page and state, kept as the output of a test run: people look at them.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'

const folder = join(import.meta.dirname, '../../../test-output/shots')

export async function shoot(page: Page, name: string): Promise<void> {
  mkdirSync(folder, { recursive: true })
  await page.screenshot({ path: join(folder, `${name}.png`) })
}
