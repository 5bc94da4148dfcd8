// Laws of every page: keys alone are enough, nobody is kept out in either theme or on a phone, and a server that restarts is met again.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { decided, pressUntil } from '../support/browser/acts.ts'
import { busyWeek } from '../support/browser/scenes.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

const isLong = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all'
let stage: Stage
let week: Record<string, any>
before(async () => {
  stage = await openStage()
  week = await busyWeek(stage)
})
after(() => stage?.close())
afterEach(async () => assert.deepEqual(await stage.tidy(), []))

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
/** Barriers that keep people out, as axe finds them (WCAG 2.2, A and AA). */
async function findings(page: Page): Promise<string[]> {
  if (!(await page.evaluate<boolean>("typeof axe === 'object'"))) await page.evaluate(axe)
  const found = await page.evaluate<{ id: string; nodes: string[] }[]>(
    `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }).then(({ violations }) => violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ html }) => html.slice(0, 160)) })))`,
  )
  return found.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).join(' | ')}`)
}

/** Every key of a command about an item or about those that are selected, as the help writes it. */
function decidingKeys(): string[] {
  const sources = globSync('src/web/{decide,inbox,item}/*.tsx', { cwd: join(import.meta.dirname, '../..') })
  const keys = sources.flatMap((name) => [
    ...readFileSync(join(import.meta.dirname, '../..', name), 'utf8').matchAll(/keys: \[([^\]]+)\]/g),
  ])
  const names = keys.flatMap(([, held]) => [...held!.matchAll(/'([^']+)'/g)].map(([, key]) => key!))
  assert.ok(names.includes('a') && names.includes('r'), 'the commands were found')
  return [...new Set(names)].filter((key) => /^[a-z]$/.test(key)).map((key) => key.toUpperCase())
}

test('keys alone: move, open, select, decide, undo, palette and help', async () => {
  const page = await stage.open('maya', '/inbox')
  await page.getByTestId('inbox-row').first().waitFor()
  await page.keyboard.press('j')
  await page.getByTestId('item-detail').waitFor()
  const first = page.url()
  await page.keyboard.press('j')
  await page.waitForURL((url) => url.href !== first)
  await page.keyboard.press('x')
  await page.getByTestId('batch-bar').waitFor()
  await page.keyboard.press('Escape')
  await page.getByTestId('batch-bar').waitFor({ state: 'detached' })
  await page.goto(`${stage.url}/inbox/${week['archive'].id}`)
  await page.getByTestId('item-raw').scrollIntoViewIfNeeded()
  await pressUntil(page, 'a', page.getByTestId('undo-toast'))
  await page.keyboard.press('z')
  await page.getByTestId('undo-toast').waitFor({ state: 'detached' })
  await page.keyboard.press('Control+k')
  const palette = page.getByRole('dialog', { name: 'Command palette' })
  await palette.getByRole('combobox', { name: 'Search commands' }).fill('record')
  await shoot(page, 'palette')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/record')
  await palette.waitFor({ state: 'detached' })
  const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
  await pressUntil(page, '?', help)
  const listed = await help.locator('dt .kbd').evaluateAll((keys) => keys.map((key) => key.textContent))
  assert.deepEqual(
    decidingKeys().filter((key) => !listed.includes(key)),
    [],
    'a key that decides is listed, or does not exist',
  )
  await shoot(page, 'keys')
  await page.keyboard.press('Escape')
  await help.waitFor({ state: 'detached' })
  await page.keyboard.press('g')
  await page.keyboard.press('i')
  await page.waitForURL('**/inbox')
})

/** A task that was delivered, one that waits, and a grant: so that no page is empty. */
async function scene(): Promise<{ readonly review: string; readonly task: string }> {
  const begun = async (goal: string): Promise<string> => {
    const { task } = await stage.call('maya', 'collaboration/task.create', { spec: { goal, acceptance_criteria: ['It works.'] } })
    await stage.call('maya', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_robin' })
    await stage.call('robin', 'collaboration/task.start', { task_id: task.id })
    return task.id
  }
  const [review, task] = [await begun('Fix the login bug'), await begun('Ship billing v3')]
  const payload = (text: string): object => ({ kind: 'inline', uri: `data:text/plain;base64,${Buffer.from(text).toString('base64')}` })
  const commit = (more: object): Promise<any> =>
    stage.call('robin', 'collaboration/artifact.commit', { task_id: review, type: 'code', ...more })
  const { artifact } = await commit({ payload: payload('const a = 1\nconst b = 2\n'), final: false })
  await commit({ artifact_id: artifact.id, parent_version: artifact.version, payload: payload('const a = 1\nconst b = 3\n') })
  await stage.call('maya', 'collaboration/task.amend', { task_id: task, text: 'The old endpoint keeps working.', intent: 'constrain' })
  await stage.call('maya', 'collaboration/grant.add', { task_id: task, scope: 'deploy:*', decision: 'allow', until: 'task', uses: 3 })
  return { review, task }
}

test('keys alone: reject with a reason, choose an option, edit, answer, review', async () => {
  const [no, choice, edit] = [
    await stage.ask('robin', { item: 'Say no by keys', details: {} }, { risk: 'R1' }),
    await stage.ask('robin', {}, { action: 'DECIDE', payload: { question: 'Left or right?', options: ['left', 'right'] }, risk: 'R1' }),
    await stage.ask(
      'robin',
      { item: 'Edit by keys', details: { size: 1 }, details_schema: { type: 'object', properties: { size: { type: 'integer' } } } },
      { risk: 'R1' },
    ),
  ]
  const resultOf = async (request_id: string): Promise<any> => (await stage.call('maya', 'execution/request.get', { request_id })).receipt
  const page = await stage.open('maya', `/inbox/${no.id}`)
  await pressUntil(page, 'r', page.getByRole('dialog', { name: 'Reject' }))
  const isAtReason = (): Promise<boolean> => page.evaluate<boolean>("document.activeElement?.tagName === 'TEXTAREA'")
  for (let tabs = 0; tabs < 6 && !(await isAtReason()); tabs++) await page.keyboard.press('Tab')
  assert.ok(await isAtReason())
  await page.keyboard.type('By hand')
  await page.keyboard.press('Control+Enter')
  await decided(page)
  assert.equal((await resultOf(no.id)).reason, 'By hand')
  await page.goto(`${stage.url}/inbox/${choice.id}`)
  await pressUntil(page, '2', page.locator('input[type=radio]:checked'))
  await pressUntil(page, 'Control+Enter', page.getByTestId('undo-toast'))
  await decided(page)
  assert.equal((await resultOf(choice.id)).result, 'right')
  await page.goto(`${stage.url}/inbox/${edit.id}`)
  await page.getByRole('button', { name: 'Edit' }).waitFor()
  await page.keyboard.press('e')
  await page.getByRole('textbox', { name: 'size' }).focus()
  await page.keyboard.press('Control+a')
  await page.keyboard.type('7')
  await page.getByRole('button', { name: 'Approve with edits' }).focus()
  await pressUntil(page, 'Enter', page.getByTestId('undo-toast'))
  await decided(page)
  assert.deepEqual((await resultOf(edit.id)).edited, { size: 7 })
  // Nothing happens when single keys are off.
  await page.evaluate("localStorage.setItem('single-keys', 'off')")
  await page.goto(`${stage.url}/inbox/${week['rename'].id}`)
  await page.getByRole('button', { name: 'Approve' }).and(page.locator(':not([aria-disabled])')).waitFor()
  await page.waitForTimeout(400) // in the first moments of an item no key decides, whatever is switched on
  await page.keyboard.press('a')
  await page.keyboard.press('r')
  await page.waitForTimeout(200)
  assert.equal((await page.getByTestId('undo-toast').count()) + (await page.locator('dialog[open]').count()), 0)
})

describe('the page is accessible', () => {
  let made: Awaited<ReturnType<typeof scene>>
  before(async () => {
    made = await scene()
  })
  // The others are made of the same parts; `npm run test:long` looks at all.
  const usual = ['profile', 'notifications', 'policy', 'people']
  const settings = isLong ? [...usual, 'absence', 'filters', 'keys', 'sessions', 'rules', 'agents', 'groups', 'links'] : usual
  const places = (): Readonly<Record<string, Readonly<Record<string, string>>>> => ({
    'the inbox and the work': {
      'inbox-approve': `/inbox/${week['migration'].id}`,
      'inbox-decide': `/inbox/${week['region'].id}`,
      'inbox-provide': `/inbox/${week['address'].id}`,
      tasks: '/tasks',
      task: `/tasks/${made.task}`,
      'tasks-new': '/tasks/new',
      reviews: '/reviews',
      review: `/reviews/${made.review}`,
    },
    'what is known': { agents: '/agents', grants: '/grants', record: '/record', insight: '/insight' },
    'the settings': Object.fromEntries(settings.map((part) => [`settings-${part}`, `/settings/${part}`])),
  })
  for (const place of ['the inbox and the work', 'what is known', 'the settings'])
    test(`axe finds nothing in ${place} in either theme, and nothing scrolls sideways on a phone`, async () => {
      const page = await stage.open('maya', '/inbox')
      const found: string[] = []
      for (const [name, path] of Object.entries(places()[place]!)) {
        await page.setViewportSize({ width: 1440, height: 900 })
        await page.goto(stage.url + path)
        await page.locator('h1').first().waitFor()
        await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme })
          await page.locator(`html[data-theme=${colorScheme}]`).waitFor()
          found.push(...(await findings(page)).map((message) => `${path}, ${colorScheme}: ${message}`))
          await shoot(page, `${colorScheme}-${name}`)
        }
        await page.setViewportSize({ width: 390, height: 844 })
        assert.equal(await page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth'), false, `${path} scrolls sideways`)
        if (isLong) await shoot(page, `phone-dark-${name}`)
        await page.emulateMedia({ colorScheme: 'light' })
        await page.locator('html[data-theme=light]').waitFor()
        await shoot(page, `phone-light-${name}`)
      }
      assert.deepEqual(found, [])
    })

  test('axe finds nothing in a dialog, and each has the name of what opened it', async () => {
    const asked = await stage.ask('robin', { item: 'Ask in a dialog', details: {} }, { risk: 'R1', timeout_seconds: 864_000 })
    const page = await stage.open('maya', `/inbox/${asked.id}`, { colorScheme: 'dark' })
    const found: string[] = []
    for (const name of ['Reject', 'Ask back', 'Reassign', 'Snooze', 'Extend', 'Escalate']) {
      await page.getByRole('button', { name, exact: true }).click()
      const dialog = page.getByRole('dialog', { name, exact: true })
      await dialog.waitFor()
      found.push(...(await findings(page)).map((message) => `${name}: ${message}`))
      await shoot(page, `dialog-${name.toLowerCase().replace(' ', '-')}`)
      // Focus is never on the button that decides, and Esc changes nothing.
      assert.notEqual(await page.evaluate('document.activeElement?.textContent'), name)
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
    }
    for (const [key, name] of [
      ['Control+k', 'Command palette'],
      ['?', 'Keyboard shortcuts'],
    ] as const) {
      await page.locator('#item-title').focus()
      await page.keyboard.press(key)
      await page.getByRole('dialog', { name }).waitFor()
      found.push(...(await findings(page)).map((message) => `${name}: ${message}`))
      await page.keyboard.press('Escape')
    }
    assert.deepEqual(found, [])
  })
})

test('a server that restarts is met again, and the page catches up', async () => {
  const page = await stage.open('maya', '/inbox')
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  await stage.restart()
  const fresh = await stage.ask('robin', { item: 'Asked after the restart', details: {} }, { risk: 'R1' })
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  await page.locator(`[data-testid=inbox-row][data-request-id="${fresh.id}"]`).waitFor()
})
