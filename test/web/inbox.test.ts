// The inbox in a real browser: rows, tabs, filters, deciding with undo, races, batches, and what must never be shown as decided.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { decided, pressUntil, rowOf, sendNow, until } from '../support/browser/acts.ts'
import { busyWeek } from '../support/browser/scenes.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

let stage: Stage
let week: Record<string, any>
before(async () => {
  stage = await openStage()
  week = await busyWeek(stage)
})
after(() => stage?.close())
afterEach(async () => assert.deepEqual(await stage.tidy(), []))

const stateOf = async (id: string): Promise<string> =>
  (await stage.call('maya', 'execution/request.get', { request_id: id })).request.status

describe('the list', () => {
  test('shows rows with kind, risk and state, sections by deadline, and the count of what waits', async () => {
    const page = await stage.open('maya')
    await rowOf(page, week['migration'].id).waitFor()
    assert.equal(await rowOf(page, week['migration'].id).getAttribute('data-risk'), 'R4')
    assert.equal(await rowOf(page, week['migration'].id).getAttribute('data-kind'), 'request')
    assert.equal(await rowOf(page, week['migration'].id).getAttribute('data-state'), 'open')
    const count = (await stage.call('maya', 'execution/inbox.count', {})) as { open: number; pool: number }
    await page
      .getByTestId('inbox-badge')
      .getByText(String(count.open - count.pool), { exact: true })
      .waitFor()
    await page.getByTestId('connection').and(page.locator('[data-state=live]')).waitFor()
    assert.equal(await page.getByRole('list', { name: 'Inbox items' }).count(), 1)
    for (const name of ['Inbox', 'Tasks', 'Reviews', 'Agents', 'Grants', 'Record', 'Settings'])
      await page.getByRole('navigation', { name: 'Main', exact: true }).getByRole('link', { name, exact: true }).waitFor()
    await shoot(page, 'inbox')
  })

  test('a new item appears by itself, and the address carries the filters', async () => {
    const page = await stage.open('maya')
    await rowOf(page, week['rename'].id).waitFor()
    const fresh = await stage.ask('robin', { item: 'Water the plants', details: {} }, { risk: 'R1' })
    await rowOf(page, fresh.id).waitFor()
    await page.goto(`${stage.url}/inbox?risk=R4`)
    await rowOf(page, week['migration'].id).waitFor()
    assert.equal(await page.getByTestId('inbox-row').count(), 1)
    await page.goto(`${stage.url}/inbox?text=plants`)
    await rowOf(page, fresh.id).waitFor()
    assert.equal(await page.getByTestId('inbox-row').count(), 1)
    await page.goto(`${stage.url}/inbox?text=nosuchword`)
    await page.getByTestId('inbox-empty').waitFor()
    await shoot(page, 'inbox-nothing')
    await page.getByTestId('filter-unassigned').click()
    await page.goto(`${stage.url}/inbox?tab=unassigned`)
    await rowOf(page, week['notes'].id).waitFor()
  })

  test('a filter is saved on the server, and is a link afterwards', async () => {
    const page = await stage.open('maya', '/inbox?risk=R2')
    await page.getByRole('button', { name: 'Save filter' }).click()
    const dialog = page.getByRole('dialog', { name: 'Save filter' })
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Low ones')
    await dialog.getByRole('button', { name: 'Save filter' }).click()
    await page.getByRole('navigation', { name: 'Main', exact: true }).getByRole('link', { name: 'Low ones' }).click()
    await rowOf(page, week['region'].id).waitFor()
    // A filter that is on is seen, however one came to it.
    await page.getByRole('navigation', { name: 'Main', exact: true }).getByRole('link', { name: 'Inbox' }).click()
    await page.getByRole('button', { name: 'Save filter' }).waitFor({ state: 'detached' })
    await page.getByRole('navigation', { name: 'Main', exact: true }).getByRole('link', { name: 'Low ones' }).click()
    await page.getByRole('button', { name: 'Save filter' }).waitFor()
    const { items } = await stage.call('maya', 'execution/filter.list')
    assert.deepEqual(
      items.map(({ name, query }: any) => [name, query]),
      [['Low ones', { risk: 'R2' }]],
    )
  })

  test('an empty inbox is all clear, and one that cannot be loaded says so', async () => {
    const page = await stage.open('ines')
    await page.getByTestId('filter-snoozed').click()
    await page.getByTestId('inbox-empty').waitFor()
    await page.route('**/v1/execution/inbox.list', (route) =>
      route.fulfill({ status: 503, json: { error: { code: 'UNAVAILABLE', message: 'the server is stopping', details: {} } } }),
    )
    await page.getByTestId('filter-all').click()
    await page.getByTestId('inbox-error').waitFor()
    assert.match((await page.getByTestId('inbox-error').textContent())!, /does not mean that it is empty/)
    await shoot(page, 'inbox-failed')
    await page.unroute('**/v1/execution/inbox.list')
    await page.getByRole('button', { name: 'Try again' }).click()
    await rowOf(page, week['wire'].id).waitFor()
  })
})

describe('deciding', () => {
  test('approve is held for five seconds, can be undone, and is decided only with its receipt', async () => {
    const asked = await stage.ask('robin', { item: 'Rotate the logs', details: { host: 'log-1' } }, { risk: 'R2' })
    const page = await stage.open('maya', '/settings/profile')
    // The clock of the page is stopped during the check: however busy the machine is, the five seconds are not over.
    await page.clock.install()
    await page.goto(`${stage.url}/inbox/${asked.id}`)
    await page.getByRole('button', { name: 'Approve' }).and(page.locator(':not([aria-disabled])')).waitFor()
    await rowOf(page, asked.id).waitFor()
    await page.clock.pauseAt(Date.now() + 60_000)
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByTestId('undo-toast').waitFor()
    assert.equal(await rowOf(page, asked.id).getAttribute('data-state'), 'sending')
    for (const place of [rowOf(page, asked.id), page.getByTestId('item-detail'), page.getByTestId('undo-toast')])
      assert.match((await place.textContent())!, /Approving in 5 s/)
    await shoot(page, 'undo')
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByTestId('undo-toast').waitFor({ state: 'detached' })
    await page.clock.resume()
    assert.equal(await stateOf(asked.id), 'pending')
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByTestId('item-decided').waitFor()
    assert.equal(await stateOf(asked.id), 'completed')
    assert.equal(await page.getByTestId('item-receipt').getAttribute('data-valid'), 'true')
    await until(async () => (await rowOf(page, asked.id).getAttribute('data-state')) === 'ended')
    assert.match((await rowOf(page, asked.id).textContent())!, /Approved by you/)
    await shoot(page, 'decided')
  })

  test('a decision reads the item once and the count once', async () => {
    const { id } = await stage.ask('robin', { item: 'Empty the cache', details: { host: 'web-1' } }, { risk: 'R1' })
    const page = await stage.open('maya', `/inbox/${id}`)
    await rowOf(page, id).waitFor()
    await page.getByTestId('connection').and(page.locator('[data-state=live]')).waitFor()
    await page.getByRole('button', { name: 'Approve' }).and(page.locator(':not([aria-disabled])')).waitFor()
    const sent: string[] = []
    page.on('request', (request) => sent.push(`${new URL(request.url()).pathname} ${request.postData() ?? ''}`))
    await page.getByRole('button', { name: 'Approve' }).click()
    await decided(page)
    await until(async () => (await rowOf(page, id).getAttribute('data-state')) === 'ended')
    // News arrive in their order: once the next item is here, everything that the decision causes was sent. The next item is counted, too.
    const next = await stage.ask('robin', { item: 'Fill the cache', details: { host: 'web-1' } }, { risk: 'R1' })
    await rowOf(page, next.id).waitFor()
    const gets = sent.filter((line) => line.startsWith('/v1/execution/inbox.get ') && line.includes(id))
    const counts = sent.filter((line) => line.startsWith('/v1/execution/inbox.count '))
    assert.equal(gets.length, 1, sent.join('\n'))
    assert.ok(counts.length <= 2, sent.join('\n'))
  })

  test('a held decision is sent immediately when the page is hidden', async () => {
    const asked = await stage.ask('robin', { item: 'Restart the cache', details: {} }, { risk: 'R1' })
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByTestId('undo-toast').waitFor()
    await page.goto('about:blank')
    await until(async () => (await stateOf(asked.id)) === 'completed')
  })

  test('and in a way that the browser finishes without the page', async () => {
    const asked = await stage.ask('robin', { item: 'Restart the queue', details: {} }, { risk: 'R1' })
    const page = await stage.open('maya', '/settings/profile')
    await page.addInitScript(`
      const send = fetch
      globalThis.kept = []
      globalThis.fetch = (to, how) => {
        if (String(to).includes('request.resolve')) kept.push(how.keepalive === true)
        return send(to, how)
      }
    `)
    await page.goto(`${stage.url}/inbox/${asked.id}`)
    await page.getByRole('button', { name: 'Approve' }).click()
    await decided(page)
    assert.deepEqual(await page.evaluate('kept'), [true])
  })

  test('a small item fits into a small window, and one key approves it', async () => {
    const asked = await stage.ask('robin', { item: 'Rotate the keys', details: { host: 'log-1' } }, { risk: 'R1' })
    const page = await stage.open('maya', `/inbox/${asked.id}`, { viewport: { width: 1280, height: 720 } })
    await page.getByRole('button', { name: 'Approve' }).and(page.locator(':not([aria-disabled])')).waitFor()
    // No key decides in the first moments of an item.
    await pressUntil(page, 'a', page.getByTestId('undo-toast'))
    await page.keyboard.press('z')
  })

  test('a font that comes late makes it fit, and that is noticed', async () => {
    const asked = await stage.ask('robin', { item: 'Rotate the salts', details: { host: 'log-1' } }, { risk: 'R1' })
    const page = await stage.open('maya', '/settings/profile', { viewport: { width: 1280, height: 720 } })
    // Wider letters for a while, as long as the face of the page is on its way.
    await page.addInitScript(`
      addEventListener('DOMContentLoaded', () => {
        const late = new CSSStyleSheet()
        late.replaceSync('.measure h1 { margin-top: 900px }')
        document.adoptedStyleSheets = [late]
        globalThis.fontIsHere = () => (document.adoptedStyleSheets = [])
      })
    `)
    await page.goto(`${stage.url}/inbox/${asked.id}`)
    await page.getByRole('button', { name: 'Approve' }).and(page.locator(':not([aria-disabled])')).waitFor()
    await pressUntil(page, 'a', page.getByText('Read it to its end first'))
    await page.evaluate('fontIsHere()')
    await page.getByText('Read it to its end first').waitFor({ state: 'detached' })
    await pressUntil(page, 'a', page.getByTestId('undo-toast'))
    await page.keyboard.press('z')
  })

  test('from the opened link five small items take five keys: the first is open, and each yes opens the next', async () => {
    const asked: string[] = []
    for (let i = 0; i < 5; i++)
      asked.push((await stage.ask('scribe', { item: `Small ${i}`, details: { n: i } }, { risk: i % 2 === 0 ? 'R1' : 'R2' })).id)
    const page = await stage.open('tom', '/inbox?text=Small')
    const seen: string[] = []
    for (let keys = 0; keys < 5; keys++) {
      const item = page
        .getByTestId('item-detail')
        .and(page.locator(`:not(${seen.map((id) => `[data-request-id="${id}"]`).join(', ') || 'x'})`))
      await item.getByRole('button', { name: 'Approve' }).and(page.locator(':not([aria-disabled])')).waitFor()
      seen.push((await item.getAttribute('data-request-id'))!)
      await page.keyboard.press('a')
    }
    await sendNow(page)
    for (const id of asked) await until(async () => (await stateOf(id)) === 'completed')
    assert.deepEqual(seen.toSorted(), asked.toSorted())
  })

  test('undo opens again what was taken back', async () => {
    const [one, two] = [
      await stage.ask('scribe', { item: 'Taken back one', details: {} }, { risk: 'R1' }),
      await stage.ask('scribe', { item: 'Taken back two', details: {} }, { risk: 'R1' }),
    ]
    const page = await stage.open('tom', '/inbox?text=Taken')
    const first = page.locator(`[data-testid=item-detail][data-request-id="${one.id}"]`)
    await first.waitFor()
    await pressUntil(page, 'a', page.locator(`[data-testid=item-detail][data-request-id="${two.id}"]`))
    await page.keyboard.press('z')
    await first.waitFor()
    assert.equal(await stateOf(one.id), 'pending')
  })

  test('a great risk asks for its phrase: letters go into its field, A goes to it, Enter in it approves, and nothing rejects', async () => {
    const asked = await stage.ask('deployer', { item: 'Deploy to production', details: { target: 'production' } }, { risk: 'R4' })
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    const field = page.getByRole('textbox', { name: 'Confirmation phrase' })
    const isFocused = (): Promise<boolean> => page.evaluate<boolean>("document.activeElement?.ariaLabel === 'Confirmation phrase'")
    const hints = (): Promise<string[]> => page.locator('footer[aria-label=Decide] .kbd:visible').allTextContents()
    await page.getByRole('button', { name: 'Reject' }).and(page.locator(':not([aria-disabled])')).waitFor()
    assert.deepEqual(await hints(), ['A'])
    // Every key that would do something with another item, and Enter after it: none of them does.
    for (const key of ['r', 'd', 'e', 'q', 's', 'm', 'c', 'p', '1']) {
      await page.keyboard.press(key)
      assert.equal(await field.inputValue(), key)
      await page.keyboard.press('Enter')
      assert.equal((await page.locator('dialog[open]').count()) + (await page.getByTestId('undo-toast').count()), 0, key)
      await field.fill('')
      await page.keyboard.press('Escape')
      assert.equal(await isFocused(), false)
    }
    await page.keyboard.press('a')
    assert.equal(await isFocused(), true)
    await page.locator('[data-announce=assertive]').getByText('Type production to confirm').waitFor()
    for (const key of 'production') await page.keyboard.press(key)
    assert.deepEqual(await hints(), ['A'])
    await page.keyboard.press('Enter')
    await decided(page)
    const { receipt } = await stage.call('maya', 'execution/request.get', { request_id: asked.id })
    assert.equal(receipt.result, 'approved')
  })

  test('Enter never rejects: that takes a click, or Ctrl and Enter', async () => {
    const asked = await stage.ask('robin', { item: 'Enter is no no', details: {} }, { risk: 'R1' })
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    const dialog = page.getByRole('dialog', { name: 'Reject' })
    await pressUntil(page, 'r', dialog)
    await page.keyboard.press('Enter')
    await dialog.getByRole('radio', { name: 'Not now' }).check()
    await page.keyboard.press('Enter')
    assert.equal(await dialog.count(), 1)
    assert.equal(await page.getByTestId('undo-toast').count(), 0)
    await page.keyboard.press('Control+Enter')
    await decided(page)
    assert.equal((await stage.call('maya', 'execution/request.get', { request_id: asked.id })).receipt.reason, 'Not now')
  })

  test('a comment goes with a yes', async () => {
    const asked = await stage.ask('robin', { item: 'With a word', details: {} }, { risk: 'R1' })
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    await pressUntil(page, 'c', page.getByRole('textbox', { name: 'Comment' }))
    await page.getByRole('textbox', { name: 'Comment' }).fill('Only on the first host.')
    await pressUntil(page, 'Control+Enter', page.getByTestId('undo-toast'))
    await decided(page)
    const { receipt } = await stage.call('maya', 'execution/request.get', { request_id: asked.id })
    assert.deepEqual([receipt.result, receipt.reason], ['approved', 'Only on the first host.'])
  })

  test('a great risk shows its phrase beside the field', async () => {
    const page = await stage.open('maya', `/inbox/${week['migration'].id}`)
    assert.equal(await page.getByTestId('confirm-phrase').textContent(), 'prod-eu-1')
    assert.equal(await page.getByTestId('item-flagged').count(), 0)
    const approve = page.getByRole('button', { name: 'Approve' })
    assert.equal(await approve.getAttribute('aria-disabled'), 'true')
    await page.getByRole('textbox', { name: 'Confirmation phrase' }).fill('prod-eu-1')
    await until(async () => (await approve.getAttribute('aria-disabled')) === null)
    await shoot(page, 'item-r4')
  })

  test('reject takes a preset and a reason', async () => {
    const asked = await stage.ask('robin', { item: 'Delete the staging bucket', details: {}, reject_requires_reason: true }, { risk: 'R3' })
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    await page.getByRole('button', { name: 'Reject' }).click()
    const dialog = page.getByRole('dialog', { name: 'Reject' })
    await dialog.getByRole('radio', { name: 'Wrong environment' }).check()
    await dialog.getByRole('textbox', { name: 'Reason' }).fill('That is staging.')
    await shoot(page, 'dialog-reject')
    await dialog.getByRole('button', { name: 'Reject' }).click()
    await decided(page)
    const { receipt } = await stage.call('maya', 'execution/request.get', { request_id: asked.id })
    assert.equal(receipt.result, 'rejected')
    assert.equal(receipt.reason, 'Wrong environment: That is staging.')
  })

  test('a receipt that does not verify is an error, never a decision', async () => {
    const asked = await stage.ask('robin', { item: 'Tidy the attic', details: {} }, { risk: 'R1' })
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    await page.route('**/v1/execution/request.resolve', async (route) => {
      const answer = await route.fetch()
      const body = await answer.json()
      await route.fulfill({ response: answer, json: { ...body, receipt: { ...body.receipt, result: 'rejected' } } })
    })
    await page.getByRole('button', { name: 'Approve' }).click()
    await sendNow(page)
    await page.getByText('does not verify').first().waitFor()
    await until(async () => (await stateOf(asked.id)) === 'completed')
    // Not even when the server says so by itself.
    await page.getByTestId('item-doubted').waitFor()
    assert.equal(await page.getByTestId('item-decided').count(), 0)
    assert.equal(await rowOf(page, asked.id).getAttribute('data-state'), 'open')
    await shoot(page, 'receipt-doubted')
    await page.unroute('**/v1/execution/request.resolve')
    // A receipt of somebody else's decision that does not verify is none either.
    const other = await stage.ask('robin', { item: 'Tidy the cellar', details: {} }, { risk: 'R1' })
    await page.route('**/v1/execution/request.get', async (route) => {
      const answer = await route.fetch()
      const body = await answer.json()
      await route.fulfill({ response: answer, json: body.receipt ? { ...body, receipt: { ...body.receipt, result: 'rejected' } } : body })
    })
    await page.goto(`${stage.url}/inbox/${other.id}`)
    await page.getByTestId('item-detail').waitFor()
    await stage.call('maya', 'execution/request.resolve', { request_id: other.id, result: 'approved' })
    await page.getByTestId('item-doubted').waitFor()
    assert.equal(await page.getByTestId('item-decided').count(), 0)
  })

  test('an option is chosen and sent', async () => {
    const page = await stage.open('maya', `/inbox/${week['region'].id}`)
    await page.getByRole('radio', { name: 'eu-north-1' }).check()
    await shoot(page, 'item-decide')
    await page.getByRole('button', { name: 'Send answer' }).click()
    await decided(page)
    const { receipt } = await stage.call('maya', 'execution/request.get', { request_id: week['region'].id })
    assert.equal(receipt.result, 'eu-north-1')
  })

  test('a text is typed, survives a reload, and is sent', async () => {
    const page = await stage.open('maya', `/inbox/${week['address'].id}`)
    await page.getByLabel('Your answer').fill('refunds@example.com')
    await page.reload()
    assert.equal(await page.getByLabel('Your answer').inputValue(), 'refunds@example.com')
    await page.getByRole('button', { name: 'Send answer' }).click()
    await decided(page)
  })

  test('a secret is gone from the page when it is sent, and is never kept', async () => {
    const page = await stage.open('maya', `/inbox/${week['token'].id}`)
    await page.getByLabel('Your answer').fill('s3cr3t-value')
    await page.getByRole('button', { name: 'Send answer' }).click()
    assert.equal(await page.getByLabel('Your answer').inputValue(), '')
    assert.ok(!(await page.content()).includes('s3cr3t-value'))
    assert.ok(!(await page.evaluate<string>('JSON.stringify({ ...sessionStorage, ...localStorage })')).includes('s3cr3t-value'))
    await decided(page)
  })

  test('a file is sent with its progress; one that is too large is not', async () => {
    const asked = await stage.ask(
      'deployer',
      {},
      { action: 'PROVIDE', payload: { prompt: 'The signed contract', input_type: 'file', validation: { max_bytes: 1000 } } },
    )
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    await page.getByLabel('File').setInputFiles({ name: 'big.txt', mimeType: 'text/plain', buffer: Buffer.alloc(2_000, 'a') })
    await page.getByText('at most 1000 B are taken').first().waitFor()
    await page.getByLabel('File').setInputFiles({ name: 'contract.txt', mimeType: 'text/plain', buffer: Buffer.from('signed') })
    await page.getByRole('button', { name: 'Send answer' }).click()
    await page.getByTestId('upload-progress').waitFor()
    await decided(page)
  })
})

describe('several people', () => {
  test('an item that another person decided first stays in its row, with who and when', async () => {
    const asked = await stage.ask('scribe', { item: 'Delete 14 stale branches', details: {} }, { role: 'pool', risk: 'R2' })
    const [maya, tom] = [await stage.open('maya', `/inbox/${asked.id}?tab=all`), await stage.open('tom', `/inbox/${asked.id}?tab=all`)]
    await rowOf(maya, asked.id).waitFor()
    await tom.getByRole('button', { name: 'Approve' }).click()
    await decided(tom)
    await maya.getByTestId('item-decided').waitFor()
    await until(async () => (await rowOf(maya, asked.id).getAttribute('data-state')) === 'ended')
    for (const place of [rowOf(maya, asked.id), maya.getByTestId('item-decided')])
      assert.match((await place.textContent())!, /Approved by Tom Okafor, \d+ s ago/)
    assert.equal(await maya.getByRole('button', { name: 'Approve' }).count(), 0)
    await shoot(maya, 'decided-elsewhere')
  })

  test('one of two people who press concurrently decides, and the other sees it', async () => {
    const asked = await stage.ask('scribe', { item: 'Merge the release branch', details: {} }, { role: 'pool', risk: 'R1' })
    const pages = [await stage.open('maya', `/inbox/${asked.id}?tab=all`), await stage.open('tom', `/inbox/${asked.id}?tab=all`)]
    await Promise.all(pages.map((page) => page.getByRole('button', { name: 'Approve' }).click()))
    await Promise.all(pages.map((page) => page.evaluate("dispatchEvent(new Event('pagehide'))")))
    await Promise.all(pages.map((page) => page.getByTestId('item-decided').waitFor()))
    assert.equal(await stateOf(asked.id), 'completed')
  })

  test('an item that changes while it is read must be read again', async () => {
    const asked = await stage.ask('robin', { item: 'Send the newsletter', details: {} }, { risk: 'R1' })
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    await page.getByTestId('item-detail').waitFor()
    await stage.call('maya', 'execution/request.question', { request_id: asked.id, text: 'To whom?' })
    await page.getByTestId('item-changed').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Approve' }).getAttribute('aria-disabled'), 'true')
    await shoot(page, 'item-changed')
    await page.getByRole('button', { name: 'I have read it' }).click()
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByTestId('undo-toast').waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
  })

  test('a vote in a quorum is a vote, not a decision', async () => {
    const page = await stage.open('tom', `/inbox/${week['wire'].id}`)
    // The consequence is that of one vote, and those who may vote are named.
    await page.getByTestId('item-effects').getByText('Counts as 1 of 2 approvals.').waitFor()
    await page.getByTestId('item-quorum').getByText('Maya Lindqvist, You, Ines Duarte can vote').waitFor()
    await page.getByRole('textbox', { name: 'Confirmation phrase' }).fill((await page.getByTestId('confirm-phrase').textContent())!)
    await page.getByRole('button', { name: 'Approve' }).click()
    await sendNow(page)
    await page.getByText('Your vote is recorded').waitFor()
    assert.equal(await stateOf(week['wire'].id), 'pending')
    await page.getByTestId('item-quorum').waitFor()
    await shoot(page, 'item-quorum')
  })
})

describe('beside the decision', () => {
  test('ask back, snooze, reassign, extend, escalate, claim and release reach the server', async () => {
    const asked = await stage.ask('robin', { item: 'Order more chairs', details: {} }, { timeout_seconds: 600 })
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    await page.getByRole('button', { name: 'Ask back' }).click()
    await page.getByRole('dialog', { name: 'Ask back' }).getByRole('textbox', { name: 'Question' }).fill('How many?')
    await page.getByRole('button', { name: 'Send question' }).click()
    await page.getByTestId('item-thread').getByText('How many?').waitFor()
    await page.getByRole('button', { name: 'Snooze' }).click()
    await page.getByRole('dialog', { name: 'Snooze' }).getByText('Its deadline is earlier').waitFor()
    await page.getByRole('dialog', { name: 'Snooze' }).getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Extend' }).click()
    await page.getByRole('spinbutton', { name: 'Minutes' }).fill('4320')
    await page.getByRole('dialog', { name: 'Extend' }).getByRole('button', { name: 'Extend' }).click()
    await page
      .getByTestId('item-deadline')
      .getByText(/2 d left/)
      .waitFor()
    await page.getByRole('button', { name: 'Snooze' }).click()
    await page.getByRole('dialog', { name: 'Snooze' }).getByRole('radio', { name: 'Tomorrow' }).check()
    await page.getByRole('dialog', { name: 'Snooze' }).getByRole('button', { name: 'Snooze' }).click()
    await rowOf(page, asked.id).waitFor({ state: 'detached' })
    await page.getByTestId('filter-snoozed').click()
    await rowOf(page, asked.id).waitFor()
    await page.getByRole('button', { name: 'Reassign' }).click()
    await page.getByRole('combobox', { name: 'Person' }).fill('Tom')
    await page.getByRole('option', { name: /Tom Okafor/ }).click()
    await page.getByRole('dialog', { name: 'Reassign' }).getByRole('button', { name: 'Reassign' }).click()
    await until(async () => (await stage.call('tom', 'execution/request.get', { request_id: asked.id })).request.assigned_to === 'user_tom')
    const pool = await stage.open('tom', `/inbox/${week['notes'].id}?tab=all`)
    await pool.getByRole('button', { name: 'Claim' }).click()
    await pool.getByRole('button', { name: 'Release' }).click()
    await pool.getByRole('button', { name: 'Claim' }).waitFor()
    await pool.getByRole('button', { name: 'Escalate' }).click()
    await pool.getByRole('combobox', { name: 'Person' }).fill('user_ines')
    await pool.getByRole('dialog', { name: 'Escalate' }).getByRole('button', { name: 'Escalate' }).click()
    await until(async () =>
      (await stage.call('ines', 'execution/request.get', { request_id: week['notes'].id })).request.people?.includes('user_ines'),
    )
  })
})

describe('a batch', () => {
  test('leaves out what weighs more, shows each, and says what became of each', async () => {
    const unrated = await stage.ask('robin', { item: 'Batch unrated', details: {} })
    const flagged = await stage.ask('robin', { item: 'Batch flagged', details: { to: 'pay\u200bpal' } }, { risk: 'R1' })
    const [one, two, heavy] = [
      await stage.ask('robin', { item: 'Batch one', details: { host: 'log-1' } }, { risk: 'R1' }),
      await stage.ask('robin', { item: 'Batch two', details: {} }, { risk: 'R2' }),
      await stage.ask('robin', { item: 'Batch heavy', details: {} }, { risk: 'R3' }),
    ]
    const page = await stage.open('maya', '/inbox?text=Batch')
    for (const title of ['Batch one', 'Batch two', 'Batch heavy', 'Batch unrated', 'Batch flagged'])
      await page.getByRole('checkbox', { name: `Select ${title}` }).check()
    await page.getByTestId('batch-bar').waitFor()
    // With a selection the key is about it, not about the item that is open.
    await page.locator('#item-title').focus()
    await page.keyboard.press('a')
    const dialog = page.getByRole('dialog', { name: 'Approve selected' })
    assert.equal(await dialog.getByTestId('batch-peek-row').count(), 2)
    await dialog.getByText('R3 and above are decided one at a time: 1 of your 5').waitFor()
    for (const message of ['Batch heavy: R3 and above', 'Batch unrated: Its risk is not rated', 'Batch flagged: Its text was flagged'])
      await dialog.getByTestId('batch-apart').getByText(message).waitFor()
    await dialog.getByTestId('batch-peek-row').getByText('host: log-1').waitFor()
    await shoot(page, 'batch')
    await stage.call('maya', 'execution/request.resolve', { request_id: two.id, result: 'rejected' })
    await dialog.getByRole('button', { name: 'Approve selected' }).click()
    await page.getByTestId('batch-result').first().waitFor()
    const outcomes = await page.getByTestId('batch-result').evaluateAll((rows) => rows.map((row) => row.getAttribute('data-outcome')))
    assert.deepEqual(new Set(outcomes), new Set(['already_decided', 'done']))
    await shoot(page, 'batch-results')
    assert.equal(await stateOf(one.id), 'completed')
    for (const { id } of [heavy, unrated, flagged]) assert.equal(await stateOf(id), 'pending')
  })
})
