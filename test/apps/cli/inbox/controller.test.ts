// The inbox at a terminal while its list changes: an answer goes only to the item that was read.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import type { Item } from '#protocols/execution/inbox/item.ts'
import { CliError, exits } from '#apps/cli/exit-codes.ts'
import { createInboxController, type InboxController } from '#apps/cli/inbox/controller.ts'
import { filterFrom } from '#apps/cli/inbox/filter.ts'
import { createInboxList, type InboxList } from '#apps/cli/inbox/list.ts'
import type { Remote } from '#apps/cli/remote/remote.ts'

const TIME = '2026-11-16T12:00:00.000Z'
const PAGE = 100
/** As long as a person needs to read. */
const READ_MS = 300

const itemOf = (number: number): Item =>
  ({
    request_id: `hxp_${number}`,
    kind: 'approval',
    asks: 'approval',
    guard: { confirm: null, batch: null },
    options: null,
    reject_ends_task: false,
    declinable: false,
    action: 'APPROVE',
    status: 'pending',
    title: `Question ${number}`,
    card: {
      asks: 'An agent asks',
      payload: {
        item: `Question ${number}`,
        details: { proposed_actions: [{ id: `act_${number}`, kind: `kind-${number}`, summary: `Action ${number}`, risk: 'low' }] },
      },
    },
    digest: `digest_${number}`,
    task_id: null,
    checkpoint_id: `ckpt_${number}`,
    agent: { id: 'agent_robot', name: 'Robot', label: 'agent_robot' },
    acts_for: { id: 'user_owner', name: 'Owner' },
    risk: 'R1',
    reason: null,
    facts: {
      agent: { registered_at: TIME, owner: 'user_owner', open_requests: 1 },
      project: { id: 'project_default', name: 'Default' },
      task: null,
      flagged: [],
    },
    effects: { approve: 'it goes on', reject: 'it does not', timeout: 'it waits' },
    priority: 'normal',
    created_at: TIME,
    age_seconds: 60,
    expires_at: null,
    overdue: false,
    snoozed_until: null,
    quorum: null,
    ended: null,
  }) as unknown as Item

type Sent = { readonly operation: string; readonly input: Record<string, unknown> }
type World = {
  /** The server's order; a test changes it. */
  order: number[]
  readonly sent: Sent[]
  readonly items: InboxList
  readonly controller: InboxController
  press(...names: string[]): Promise<void>
  screen(): string
}

/** A server with pages of the length that the screen asks for. */
function serverOf(world: Pick<World, 'order' | 'sent'>): Remote {
  const answers: Record<string, (input: Record<string, unknown>) => unknown> = {
    'execution/inbox.list': ({ cursor = '0' }) => {
      const from = Number(cursor)
      const end = from + PAGE
      return { items: world.order.slice(from, end).map(itemOf), next_cursor: end < world.order.length ? String(end) : null }
    },
    'execution/inbox.count': () => ({ open: world.order.length, by_priority: { critical: 0 }, acting_for: [], next_cursor: null }),
    'execution/inbox.get': ({ request_id }) => ({ item: itemOf(Number(String(request_id).slice('hxp_'.length))) }),
    'collaboration/checkpoint.get': ({ checkpoint_id }) => {
      const number = String(checkpoint_id).slice('ckpt_'.length)
      return { checkpoint: { id: checkpoint_id, proposed_actions: [{ id: `act_${number}` }] } }
    },
    'collaboration/checkpoint.resolve': () => ({}),
    'execution/request.resolve': () => ({ receipt: {} }),
    'execution/inbox.resolve': () => ({ results: [] }),
  }
  const call = (operation: string, input: object): Promise<unknown> => {
    if (operation.endsWith('.resolve')) world.sent.push({ operation, input: input as Record<string, unknown> })
    const answer = answers[operation]
    if (answer === undefined) return Promise.reject(new CliError(exits.refused, 'NOT_FOUND', operation))
    return Promise.resolve(answer(input as Record<string, unknown>))
  }
  return { where: 'test', isOffline: false, call } as unknown as Remote
}

async function opened(order: number[]): Promise<World> {
  const known = { order, sent: [] as Sent[] }
  const remote = serverOf(known)
  const items = createInboxList(remote, { text: '', query: {} }, () => undefined)
  await items.reset(items.filter)
  let drawn = ''
  const controller = createInboxController(remote, items, 'user_owner', {
    paint: (_, text) => text,
    env: {},
    size: () => ({ columns: 80, rows: 40 }),
    write: (text) => void (drawn = stripVTControlCharacters(text)),
    aside: (work) => work(),
    suspend: () => Promise.resolve(),
    upload: () => Promise.reject(new Error('no files here')),
  })
  controller.draw()
  return Object.assign(known, {
    items,
    controller,
    screen: () => drawn,
    /** One key after the other. */
    async press(...names: string[]) {
      for (const name of names) {
        controller.press([name.length === 1 ? { name: 'character', text: name } : { name, text: '' }])
        await wait(0)
      }
    },
  })
}

/** To the last but one item of the second page, so that the third is not read yet. */
const toLast: readonly string[] = Array.from({ length: 2 * PAGE - 2 }, () => 'down')
/** More new items than rows behind the chosen item on its page. */
const NEW = [991, 992, 993, 994, 995]
const numbers = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i)

test('actions are approved for the item that they were chosen in, though new ones have pushed it off the page', async () => {
  const world = await opened(numbers(1, 300))
  await world.press(...toLast)
  assert.match(world.screen(), /── 199 of /)
  await wait(READ_MS)
  await world.press('x', ' ')
  assert.match(world.screen(), /kind-199/)
  world.order = [...NEW, ...world.order]
  await world.controller.refresh()
  assert.match(world.screen(), /kind-199/, 'the list to choose from stays that of its item')
  await world.press('enter', 'y', 'enter')
  await wait(0)
  const [sent] = world.sent
  assert.deepEqual(sent, {
    operation: 'collaboration/checkpoint.resolve',
    input: { checkpoint_id: 'ckpt_199', action: 'approve', digest: 'digest_199', approved_actions: ['act_199'] },
  })
})

test('a single key answers the item that was read, though new ones have pushed it off the page', async () => {
  const world = await opened(numbers(1, 300))
  await world.press(...toLast)
  await wait(READ_MS)
  world.order = [...NEW, ...world.order]
  await world.controller.refresh()
  assert.match(world.screen(), /\n>[^\n]*Question 199 /)
  await world.press('a')
  await wait(0)
  assert.deepEqual(world.sent.map(({ input }) => [input['request_id'], input['digest']]), [['hxp_199', 'digest_199']]) // prettier-ignore
})

test('marked items stay in the list, and one answer is for all of them', async () => {
  const world = await opened(numbers(1, 500))
  await world.press(...toLast, ' ', 'g')
  await wait(READ_MS)
  world.order = [...numbers(1_001, 1_150), ...world.order]
  await world.controller.refresh()
  await world.press(' ', 'a')
  await wait(0)
  const answered = world.sent.flatMap(({ input }) => (input['answers'] as { request_id: string }[]).map(({ request_id }) => request_id))
  assert.deepEqual(answered, ['hxp_1', 'hxp_199'])
})

test('a key press is for the item that was on the screen, not for one that has just replaced it', async () => {
  const world = await opened([1, 2, 3])
  await wait(READ_MS)
  await world.press('down')
  await wait(READ_MS)
  // Item 1 was read before, but it is at the cursor again only since this moment.
  await world.press('up', 'a')
  assert.match(world.screen(), /Press again to confirm/)
  assert.deepEqual(world.sent, [])
  await wait(READ_MS)
  await world.press('a')
  assert.deepEqual(world.sent.map(({ input }) => input['request_id']), ['hxp_1']) // prettier-ignore
})

test('no key answers a chosen item that the list does not have', async () => {
  const world = await opened([1, 2, 3])
  await wait(READ_MS)
  world.items.chosen = 'hxp_77'
  await world.press('a')
  assert.deepEqual(world.sent, [])
})

test('a filter has no fields but its own: any other word is searched for in the items', () => {
  for (const word of ['constructor:x', 'toString:x', '__proto__:x', ':x']) assert.deepEqual(filterFrom(word, {}).query, { text: word })
})
