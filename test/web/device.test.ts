// The page on a device and over time: insight, settings that act, a phone, the page offline, and a newer version that asks first.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { decided, rowOf, until } from '../support/browser/acts.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage?.close())
afterEach(async () => assert.deepEqual(await stage.tidy(), []))

test('insight draws what was answered, each plot with its numbers as a table', async () => {
  for (const [i, result] of ['approved', 'approved', 'rejected'].entries()) {
    const { id } = await stage.ask('robin', { item: `Small thing ${i}`, details: {} }, { risk: 'R1' })
    await stage.call('maya', 'execution/request.resolve', { request_id: id, result })
  }
  const page = await stage.open('maya', '/insight')
  await page.getByRole('img', { name: 'Answers a day: All together' }).waitFor()
  await page.getByRole('img', { name: 'Time to an answer: Robin' }).waitFor()
  const numbers = page.getByRole('region', { name: 'All together' })
  await numbers.getByText('The numbers as a table').click()
  await numbers.getByRole('table').getByRole('row').nth(1).waitFor()
  assert.deepEqual((await numbers.getByRole('table').getByRole('row').last().getByRole('cell').allTextContents()).slice(1, 5), [
    '3',
    '2',
    '1',
    '0',
  ])
  await page.getByText('Where agents wait longest').waitFor()
  await shoot(page, 'insight')
  await page.getByRole('combobox', { name: 'By' }).selectOption('person')
  await page.getByRole('img', { name: /Answers a day: (?:You|Maya)/ }).waitFor()
})

describe('settings', () => {
  test('a risk floor is set, applies immediately, and is removed', async () => {
    const page = await stage.open('maya', '/settings/policy')
    await page.getByRole('combobox', { name: 'At least' }).selectOption('R4')
    await page.getByRole('textbox', { name: 'Target' }).fill('prod-eu-1')
    await page.getByRole('button', { name: 'Add rule' }).click()
    await page.getByTestId('floor-row').getByText('target prod-eu-1').waitFor()
    await shoot(page, 'settings-policy')
    const asked = await stage.ask('robin', { item: 'Restart it', details: { target: 'prod-eu-1' } }, { risk: 'R1' })
    await page.goto(`${stage.url}/inbox/${asked.id}`)
    await page.getByTestId('item-risk').getByText('R4 high').waitFor()
    await page.getByTestId('item-facts').getByText('the agent said R1').waitFor()
    await page.goto(`${stage.url}/settings/policy`)
    await page.getByTestId('floor-row').getByRole('button', { name: 'Remove' }).click()
    await page.getByTestId('floor-row').waitFor({ state: 'detached' })
  })

  test('an owner adds people, agents, groups and links', async () => {
    const page = await stage.open('maya', '/settings/people')
    await page.getByLabel('Name', { exact: true }).fill('Nadia Brandt')
    await page
      .getByRole('form', { name: /person/i })
      .getByRole('button')
      .last()
      .click()
    await page.getByText('Nadia Brandt').first().waitFor()
    await page.goto(`${stage.url}/settings/groups`)
    await page.getByRole('textbox', { name: 'Name' }).fill('on-call')
    await page.getByRole('checkbox', { name: 'Tom Okafor' }).check()
    await page.getByRole('button', { name: 'Set group' }).click()
    await page.getByText('on-call').first().waitFor()
    await shoot(page, 'settings-groups')
    const tom = await stage.open('tom', '/settings/people')
    await tom.getByText('There is no such setting').waitFor()
  })
})

test('roles are shown and changed where people are listed, and who only reads is offered no decision', async () => {
  const { task } = await stage.call('maya', 'collaboration/task.create', {
    spec: { goal: 'Look after it', acceptance_criteria: ['it runs'] },
  })
  const asked = await stage.ask('robin', { item: 'Read along', details: {} }, { risk: 'R1' })
  const owner = await stage.open('maya', '/projects')
  await owner.getByRole('button', { name: 'Members' }).first().click()
  const ines = owner.getByTestId('member-row').and(owner.locator('[data-subject=user_ines]'))
  await ines.getByRole('button', { name: 'Make viewer' }).click()
  await ines.getByText('viewer', { exact: true }).waitFor()
  await shoot(owner, 'projects-roles')
  const page = await stage.open('ines', `/inbox/${asked.id}`)
  const looks = async (who: string): Promise<void> => {
    await page.getByTestId('item-reader').getByText('You read here').waitFor()
    assert.equal(await page.getByRole('button', { name: /^Approve|^Reject|^Ask back/ }).count(), 0, who)
    await page.goto(`${stage.url}/tasks/${task.id}`)
    await page.getByTestId('task-state').waitFor()
    assert.equal(await page.getByRole('button', { name: /^Assign|^Amend|^Cancel task/ }).count(), 0, who)
    await page.goto(`${stage.url}/record`)
    await page.getByRole('button', { name: 'Export' }).waitFor()
  }
  await looks('a viewer')
  await owner.goto(`${stage.url}/settings/people`)
  const row = owner.getByRole('listitem').filter({ hasText: 'user_ines' })
  await row.getByRole('button', { name: 'Make auditor' }).click()
  await shoot(owner, 'settings-people-roles')
  await row.getByRole('button', { name: 'Make auditor' }).last().click()
  await row.getByText('auditor', { exact: true }).waitFor()
  await page.goto(`${stage.url}/inbox/${asked.id}`)
  await looks('an auditor')
  await shoot(page, 'record-auditor')
  await page.goto(`${stage.url}/settings/profile`)
  await page.getByText('auditor of the installation').waitFor()
  assert.equal(await page.getByRole('link', { name: 'Policy' }).count(), 0)
  await stage.call('maya', 'identity/user.update', { user_id: 'user_ines', role: 'member' })
  await stage.call('maya', 'identity/project.join', { project_id: 'project_default', subject: 'user_ines', role: 'member' })
})

test('the card says who answers by the rules for approvals, and is not decided by others', async () => {
  const approvals = [{ from_risk: 'R4', by: { people: ['user_tom', 'user_ines'] }, excludes: ['agent_owner'] }]
  await stage.call('maya', 'execution/policy.set', { project_id: 'project_default', approvals })
  const asked = await stage.ask('robin', { item: 'Drop the table', details: { target: 'users' } }, { risk: 'R4' })
  const words = '1 of Tom Okafor, Ines Duarte, not Maya Lindqvist (answers for the agent), by the rules of project_default'
  const maya = await stage.open('maya', `/inbox/${asked.id}`)
  await maya.getByTestId('item-approval').getByText(words).waitFor()
  await maya.getByTestId('item-reader').getByText('Others answer it').waitFor()
  await shoot(maya, 'item-approval')
  const tom = await stage.open('tom', `/inbox/${asked.id}`)
  await tom.getByTestId('item-approval').getByText(words).waitFor()
  await tom.getByRole('button', { name: /^Reject/ }).waitFor()
  await stage.call('tom', 'execution/request.resolve', { request_id: asked.id, result: 'rejected' })
  await stage.call('maya', 'execution/policy.set', { project_id: 'project_default', approvals: [] })
})

test('on a phone an item is a page of its own, with its bar, and back leads to the list', async () => {
  const asked = await stage.ask('robin', { item: 'Decide it on the train', details: { seat: '12A' } }, { risk: 'R1' })
  const page = await stage.open('maya', '/inbox', { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true })
  const main = page.getByRole('navigation', { name: 'Main' })
  for (const name of ['Inbox', 'Tasks', 'Reviews', 'Record']) await main.getByRole('link', { name, exact: true }).waitFor()
  const { open, pool } = await stage.call('maya', 'execution/inbox.count')
  await page
    .getByTestId('inbox-badge')
    .getByText(String(open - pool), { exact: true })
    .waitFor()
  const connection = page.getByTestId('connection')
  await connection.and(page.locator('[data-state=live]')).waitFor()
  assert.equal(await connection.count(), 1)
  await shoot(page, 'phone-inbox')
  await rowOf(page, asked.id).tap()
  await page.getByTestId('item-detail').waitFor()
  await connection.and(page.locator('[data-state=live]')).waitFor()
  assert.equal(await connection.count(), 1)
  const small = await page.evaluate<string[]>(
    `[...document.querySelectorAll('.decide button, .topbar a, .topbar button')].filter((one) => one.checkVisibility()).filter((one) => one.getBoundingClientRect().height < 44).map((one) => one.textContent)`,
  )
  assert.deepEqual(small, [])
  await page.getByRole('button', { name: 'More' }).tap()
  await page.getByRole('button', { name: 'Snooze' }).waitFor()
  await shoot(page, 'phone-item-more')
  await page.getByRole('button', { name: 'Approve' }).tap()
  await decided(page)
  await page.getByRole('link', { name: 'Back to the inbox' }).tap()
  await rowOf(page, asked.id).waitFor()
  await main.getByRole('button', { name: 'More' }).tap()
  await page.getByRole('option', { name: 'Settings' }).tap()
  await page.waitForURL('**/settings/profile')
  await page.goto(`${stage.url}/record`)
  await page.getByRole('textbox', { name: 'Actor' }).waitFor()
  const low = await page.evaluate<number[]>(
    `[...document.querySelectorAll('input.text, select.text')].map((one) => one.getBoundingClientRect().height).filter((height) => height < 44)`,
  )
  assert.deepEqual(low, [], 'fields are as high as a finger')
})

test('once it is on the device it opens offline and says so; nothing of the API is kept, and nothing is decided', async () => {
  const asked = await stage.ask('robin', { item: 'Not while offline', details: {} }, { risk: 'R1' })
  const page = await stage.open('maya', '/settings/profile')
  const way = (await page.getByRole('link', { name: 'Install' }).getAttribute('href'))!
  await page.goto(stage.url + way)
  await page.waitForURL(/\/settings\/profile$/)
  await page.getByRole('link', { name: 'Install' }).waitFor()
  await page.reload()
  await page.goto(`${stage.url}/inbox/${asked.id}`)
  await page.getByTestId('item-detail').waitFor()
  const kept = await page.evaluate<string[]>(
    `(async () => (await Promise.all((await caches.keys()).map(async (name) => (await (await caches.open(name)).keys()).map(({ url }) => new URL(url).pathname)))).flat())()`,
  )
  assert.ok(kept.includes('/inbox') && kept.some((path) => path.startsWith('/assets/')), kept.join(' '))
  assert.deepEqual(
    kept.filter((path) => path !== '/inbox' && !path.startsWith('/assets/')),
    [],
  )
  await page.context().setOffline(true)
  await page.reload()
  await page.getByText(/You are offline|Reconnecting\. Last news/).waitFor()
  assert.notEqual(await page.getByTestId('connection').getAttribute('data-state'), 'live')
  await page.getByTestId('inbox-error').waitFor()
  await shoot(page, 'offline-from-device')
  assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0)
  await page.context().setOffline(false)
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  assert.equal((await stage.call('maya', 'execution/request.get', { request_id: asked.id })).request.status, 'pending')
})

test('a frozen server is noticed within seconds, and so is its return', async () => {
  const page = await stage.open('maya', '/tasks')
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  process.kill(stage.server().pid, 'SIGSTOP')
  try {
    await page.locator('[data-testid=connection][data-state=reconnecting]').waitFor()
  } finally {
    process.kill(stage.server().pid, 'SIGCONT')
  }
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
})

test('a newer version is offered when the server comes back, and loaded only when it is wanted', async () => {
  const page = await stage.open('maya', '/tasks/new')
  await page.getByLabel('Goal').fill('Half a thought')
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  await page.route('**/inbox', (route) =>
    route.fulfill({ contentType: 'text/html', body: '<script type="module" src="/assets/page-newer.js"></script>' }),
  )
  await stage.restart()
  await page.getByTestId('new-version').waitFor()
  assert.equal(await page.getByLabel('Goal').inputValue(), 'Half a thought')
  await shoot(page, 'new-version')
  await page.getByTestId('new-version').getByRole('button', { name: 'Later' }).click()
  await until(async () => (await page.getByTestId('new-version').count()) === 0)
})
