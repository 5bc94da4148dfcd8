// The page that verifies bundles, in Chromium: from a file and from `/verify` it judges as the command does, in the same words, and asks no network.
import assert from 'node:assert/strict'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { verifyBundle } from '#sdk/bundle/verify.ts'
import { buildWeb } from '../../../scripts/web.ts'
import { openBrowser } from '../../support/browser/chromium.ts'
import { makeBundles, type Bundles } from '../../support/log/bundles.ts'
import { logFolder } from '../../support/log/served.ts'

const file = join(import.meta.dirname, '../../../dist/web/verify.html')
const ends: (() => unknown)[] = []
const t = { after: (end: () => unknown) => void ends.push(end) } as never
let browser: Browser
let made: Bundles

before(async () => {
  await buildWeb()
  browser = await openBrowser()
  ends.push(() => browser.close())
  made = await makeBundles(t)
})
after(async () => {
  for (const end of ends.toReversed()) await end()
})

async function verdictOn(page: Page, bundle: string, policy: string): Promise<readonly string[]> {
  const folder = logFolder(t)
  const [first, second] = [join(folder, 'b.ndjson'), join(folder, 'p.txt')]
  writeFileSync(first, bundle)
  writeFileSync(second, policy)
  await page.setInputFiles('#bundle', [])
  await page.setInputFiles('#policy', second)
  await page.setInputFiles('#bundle', first)
  await page.waitForSelector('#verdict:not(.working):not(:empty)')
  await page.waitForFunction("!document.querySelector('#verdict').textContent.startsWith('Verifying')")
  return page.locator('#verdict p').allTextContents()
}

for (const where of ['file://', '/verify'] as const)
  test(`from ${where} genuine bundles, changed ones and unusable policies get the verdict of the verifier, and nothing is loaded`, async () => {
    const page = await (await browser.newContext()).newPage()
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url()))
    const errors: string[] = []
    page.on('console', (message) => void (message.type() === 'error' && errors.push(message.text())))
    const address = where === 'file://' ? pathToFileURL(file).href : `${made.served.url}/verify`
    await page.goto(address)
    const bundle = await made.export({ id: made.request })
    const genuine = await verdictOn(page, bundle, made.policy)
    assert.equal(genuine[0], 'Genuine')
    assert.ok(
      genuine.some((line) => /^About request hxp_\S+: a selection of \d+ facts$/.test(line)),
      genuine.join('\n'),
    )
    assert.ok(genuine.some((line) => line.startsWith('Witness w1.example, at 20')))
    const lines = bundle.split('\n')
    const changes = [
      bundle.replace('Switch', 'Swatch'),
      bundle.replace('approved', 'rejected'),
      lines.toSpliced(1, 1).join('\n'),
      bundle.slice(0, -1),
    ]
    for (const changed of changes) {
      const verdict = await verifyBundle(changed, made.policy)
      assert.ok(!verdict.genuine)
      const words = `${verdict.line === null ? '' : `line ${verdict.line}: `}${verdict.what}`
      assert.deepEqual(await verdictOn(page, changed, made.policy), ['Not genuine', words])
    }
    assert.deepEqual(await verdictOn(page, bundle, 'quorum none\n'), [
      'It could not be tried',
      'the policy names no log: add a line `log <vkey>`',
    ])
    assert.deepEqual(
      asked.filter((url) => !url.startsWith('blob:')),
      [address],
    )
    const escaped = await page.evaluate(() =>
      fetch('http://127.0.0.1:1/').then(
        () => 'sent',
        () => 'refused',
      ),
    )
    assert.equal(escaped, 'refused')
    assert.ok(errors.every((text) => /Content Security Policy/.test(text)) && errors.length > 0, errors.join('\n'))
    await page.context().close()
  })

test('the page is one file below 40 kB, whose policy names its script and its style alone', async () => {
  assert.ok(statSync(file).size < 40_000, String(statSync(file).size))
  const text = readFileSync(file, 'utf8')
  assert.match(
    text,
    /content="default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; base-uri 'none'; form-action 'none'"/,
  )
  assert.doesNotMatch(text, /\b(?:src|href)=|https?:\/\//)
  const response = await made.served.get('/verify')
  assert.equal(response.headers.get('content-type'), 'text/html; charset=utf-8')
  assert.match(response.headers.get('content-security-policy')!, /script-src 'sha256-[^']+'.*frame-ancestors 'none'/)
  assert.equal((await made.served.get('/verify/more')).status, 404)
})
