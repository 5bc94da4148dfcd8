// Every button of the page that makes a call: where it is, what it calls, where a refusal is said, and what was typed before it.
import type { Locator, Page } from 'playwright-core'
import { sendNow } from './acts.ts'
import type { Stage } from './stage.ts'

export const TYPED = 'Words that stay'

export type Button = {
  readonly name: string
  /** The address that it calls, as a glob. */
  readonly calls: string
  readonly path: string
  /** Goes as far as everything is filled in. */
  prepare(page: Page): Promise<unknown>
  press(page: Page): Promise<unknown>
  /** Where the words of a refusal are. */
  beside(page: Page): Locator
  /** The text that is still there after a refusal, and what it must be. */
  typed?(page: Page): Promise<string>
  readonly expected?: string
  /** Only there when it was taken for done. */
  readonly done: string
}

const nothing = (): Promise<void> => Promise.resolve()
const press = (page: Page, name: string): Promise<void> => page.getByRole('button', { name, exact: true }).click()
const toast = (page: Page): Locator => page.getByTestId('error-toast')
const refused = (page: Page): Locator => page.getByTestId('refused')

type Field = { readonly label: string; readonly value?: string }
/** A button that opens a dialog of its name, with a field that is filled in. */
function inDialog(name: string, calls: string, path: string, field: Field | null, more: Partial<Button> = {}, own = name): Button {
  const dialog = (page: Page): Locator => page.getByRole('dialog', { name, exact: true })
  const typed = (page: Page): Locator => dialog(page).getByLabel(field!.label, { exact: true })
  return {
    name,
    calls: `**/v1/${calls}`,
    path,
    async prepare(page) {
      await press(page, name)
      if (field !== null) await typed(page).fill(field.value ?? TYPED)
    },
    press: (page) => dialog(page).getByRole('button', { name: own, exact: true }).click(),
    beside: dialog,
    ...(field === null ? {} : { typed: (page) => typed(page).inputValue(), expected: field.value ?? TYPED }),
    done: '[data-testid=undo-toast]',
    ...more,
  }
}
/** A button that acts immediately, without a dialog. */
const atOnce = (name: string, calls: string, path: string, beside: Button['beside'], done: string): Button => ({
  name,
  calls,
  path,
  prepare: nothing,
  press: (page) => press(page, name),
  beside,
  done,
})
/** A button that decides: what it sends is held for five seconds, which are not waited for. */
const deciding = (name: string, path: string, more: Partial<Button> = {}): Button => ({
  ...atOnce(name, '**/v1/execution/request.resolve', path, (page) => page.getByTestId('decide-error'), '[data-testid=item-decided]'),
  async press(page) {
    await press(page, name)
    await sendNow(page)
  },
  ...more,
})

async function taskOf(stage: Stage, goal: string): Promise<string> {
  const { task } = await stage.call('maya', 'collaboration/task.create', { spec: { goal, acceptance_criteria: [] } })
  await stage.call('maya', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_robin' })
  await stage.call('robin', 'collaboration/task.start', { task_id: task.id })
  return task.id
}

/** Everything that the buttons are about, and they themselves. */
export async function buttonsOf(stage: Stage): Promise<Button[]> {
  const [begun, taken, delivered] = [await taskOf(stage, 'Begun'), await taskOf(stage, 'Taken'), await taskOf(stage, 'Delivered')]
  await stage.call('maya', 'collaboration/task.takeover', { task_id: taken })
  const { task: created } = await stage.call('maya', 'collaboration/task.create', { spec: { goal: 'Created' } })
  await stage.call('maya', 'collaboration/grant.add', { task_id: begun, scope: 'tidy:up', decision: 'allow', until: 'task' })
  const payload = { kind: 'inline', uri: `data:text/plain;base64,${Buffer.from('one\ntwo\n').toString('base64')}` }
  await stage.call('robin', 'collaboration/artifact.commit', { task_id: delivered, type: 'text', payload })
  const asked = async (item: string, more: object = {}, about: object = {}): Promise<string> =>
    `/inbox/${(await stage.ask('robin', { item, details: { n: 5 }, ...about }, { risk: 'R1', timeout_seconds: 864_000, ...more })).id}?tab=all`
  const details_schema = { type: 'object', properties: { n: { type: 'integer' } }, additionalProperties: true }
  const [plain, edited] = [await asked('One of two'), await asked('Two of two', {}, { details_schema })]
  const [claimable, claimed] = [await asked('For anybody', { role: 'pool' }), await asked('For me', { role: 'pool' })]
  await stage.call('maya', 'execution/request.claim', { request_id: claimed.slice('/inbox/'.length, claimed.indexOf('?')) })
  const scoped = await asked('Deploy', { metadata: { task_id: await taskOf(stage, 'Deploys') } }, { scope: 'deploy:x' })
  const open = await asked('', { action: 'PROVIDE', payload: { prompt: 'A word', input_type: 'text' } })
  const person = { label: 'Person', value: 'Tom Okafor' }
  const reason = { label: 'Reason' }
  const selected = async (page: Page, name: string): Promise<void> => {
    for (const title of ['One of two', 'Two of two']) await page.getByRole('checkbox', { name: `Select ${title}`, exact: true }).check()
    await press(page, name)
  }
  const declining = (page: Page): Locator => page.getByRole('dialog', { name: 'Decline', exact: true })
  const stuckTask = await taskOf(stage, 'Stuck')
  await stage.call('robin', 'collaboration/checkpoint.raise', { task_id: stuckTask, kind: 'escalation', prompt: 'What now?' })
  const stuck = `/inbox/${(await stage.call('maya', 'execution/inbox.list', { task_id: stuckTask })).items[0].request_id}`
  const rejecting = (page: Page): Locator => page.getByRole('dialog', { name: 'Reject', exact: true })
  return [
    deciding('Approve', plain),
    deciding('Approve with edits', edited, {
      async prepare(page) {
        await press(page, 'Edit')
        await page.getByRole('textbox', { name: 'n', exact: true }).fill('7')
      },
      typed: (page) => page.getByRole('textbox', { name: 'n', exact: true }).inputValue(),
      expected: '7',
    }),
    deciding('Reject', plain, {
      async press(page) {
        await press(page, 'Reject')
        await rejecting(page).getByLabel('Reason', { exact: true }).fill(TYPED)
        await rejecting(page).getByRole('button', { name: 'Reject', exact: true }).click()
        await sendNow(page)
      },
      async typed(page) {
        await press(page, 'Reject')
        const message = await rejecting(page).getByLabel('Reason', { exact: true }).inputValue()
        await rejecting(page).getByRole('button', { name: 'Cancel', exact: true }).click()
        return message
      },
    }),
    deciding('Send answer', open, {
      prepare: (page) => page.getByLabel('Your answer', { exact: true }).fill(TYPED),
      typed: (page) => page.getByLabel('Your answer', { exact: true }).inputValue(),
    }),
    deciding('Decline', open, {
      calls: '**/v1/execution/request.decline',
      async press(page) {
        await press(page, 'Decline')
        await declining(page).getByLabel('Reason', { exact: true }).fill(TYPED)
        await declining(page).getByRole('button', { name: 'Decline', exact: true }).click()
        await sendNow(page)
      },
      async typed(page) {
        await press(page, 'Decline')
        const message = await declining(page).getByLabel('Reason', { exact: true }).inputValue()
        await declining(page).getByRole('button', { name: 'Cancel', exact: true }).click()
        return message
      },
    }),
    deciding('Tell the agent', stuck, {
      prepare: (page) => page.getByLabel('Message to the agent', { exact: true }).fill(TYPED),
      typed: (page) => page.getByLabel('Message to the agent', { exact: true }).inputValue(),
    }),
    inDialog('Hand to another agent', 'collaboration/checkpoint.resolve', stuck, { label: 'Agent', value: 'Planner' }),
    inDialog(
      'Ask back',
      'execution/request.question',
      plain,
      { label: 'Question' },
      { done: '[data-testid=item-thread]' },
      'Send question',
    ),
    inDialog('Reassign', 'execution/request.assign', plain, person),
    inDialog('Snooze', 'execution/request.snooze', plain, null),
    inDialog('Extend', 'execution/request.extend', plain, { label: 'Minutes', value: '77' }),
    inDialog('Escalate', 'execution/request.escalate', plain, person),
    inDialog('Grant', 'collaboration/grant.add', scoped, { label: 'Scope' }),
    atOnce('Claim', '**/v1/execution/request.claim', claimable, refused, 'button:text-is("Release")'),
    atOnce('Release', '**/v1/execution/request.release', claimed, refused, 'button:text-is("Claim")'),
    inDialog('Approve selected', 'execution/inbox.resolve', '/inbox?tab=all', null, {
      prepare: (page) => selected(page, 'Approve selected'),
      done: '[data-testid=batch-result]',
    }),
    inDialog('Reject selected', 'execution/inbox.resolve', '/inbox?tab=all', reason, {
      async prepare(page) {
        await selected(page, 'Reject selected')
        await page.getByLabel('Reason', { exact: true }).fill(TYPED)
      },
      done: '[data-testid=batch-result]',
    }),
    inDialog('Save filter', 'execution/filter.save', '/inbox?risk=R1', { label: 'Name' }, { done: `nav a:text-is("${TYPED}")` }),
    {
      ...atOnce('Submit review', '**/v1/collaboration/review.submit', `/reviews/${delivered}`, refused, '[data-testid=task-state]'),
      async prepare(page) {
        await page.getByRole('radio', { name: 'Request changes', exact: true }).check()
        await page.getByLabel('What must change', { exact: true }).fill(TYPED)
      },
      typed: (page) => page.getByLabel('What must change', { exact: true }).inputValue(),
    },
    atOnce('Download', '**/v1/collaboration/artifact.download*', `/reviews/${delivered}`, toast, '[data-testid=undo-toast]'),
    inDialog('Amend', 'collaboration/task.amend', `/tasks/${begun}`, { label: 'Instruction' }),
    inDialog('Interrupt', 'collaboration/task.interrupt', `/tasks/${begun}`, reason),
    inDialog('Extend', 'collaboration/task.extend', `/tasks/${begun}`, { label: 'Minutes', value: '77' }),
    inDialog('Cancel task', 'collaboration/task.cancel', `/tasks/${begun}`, reason),
    inDialog('Reassign', 'collaboration/task.reassign', `/tasks/${begun}`, { label: 'Agent', value: 'Planner' }),
    inDialog('Assign', 'collaboration/task.assign', `/tasks/${created.id}`, { label: 'Agent', value: 'Planner' }),
    inDialog(
      'New project',
      'identity/project.add',
      '/projects',
      { label: 'Name' },
      { done: 'b:text-is("Words that stay")' },
      'Create project',
    ),
    atOnce('Take over', '**/v1/collaboration/task.takeover', `/tasks/${begun}`, toast, 'button:text-is("Hand back")'),
    atOnce('Hand back', '**/v1/collaboration/task.return', `/tasks/${taken}`, toast, 'button:text-is("Take over")'),
    inDialog('Revoke', 'collaboration/grant.revoke', '/grants', null, { done: '.chip:text-is("revoked")' }),
    atOnce('Verify', '**/v1/collaboration/audit.verify', '/record', refused, '[data-testid=verify-result]'),
    atOnce('Export', '**/v1/collaboration/audit.export', '/record', refused, '[data-testid=undo-toast]'),
    {
      ...atOnce('Create task', '**/v1/collaboration/task.create', '/tasks/new', refused, '[data-testid=task-state]'),
      prepare: (page) => page.getByLabel('Goal', { exact: true }).fill(TYPED),
      typed: (page) => page.getByLabel('Goal', { exact: true }).inputValue(),
    },
    atOnce('Sign out', '**/logout', '/settings/profile', toast, '[data-testid=signed-out]'),
  ]
}
