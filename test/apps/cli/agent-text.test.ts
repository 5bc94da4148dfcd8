// Text of agents in the terminal: no line of it can look like a line of the server (X32): cards, the live screen, and things shown field by field.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ProposedAction } from '#protocols/collaboration/schema.ts'
import type { Item } from '#protocols/execution/inbox/item.ts'
import type { Delivered } from '#apps/cli/inbox/deliverable.ts'
import { cardLines } from '#apps/cli/inbox/card.ts'
import { frameOf, SCREEN_OFF, SCREEN_ON, type View } from '#apps/cli/inbox/screen.ts'
import { cardsOf } from '#apps/cli/output/render.ts'
import { foldLines, markedLines, widthOf } from '#apps/cli/output/safe-text.ts'

/** A sequence that is the same in each run. */
function chance(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** The server's own sentences, and everything that could begin a line, hide one or turn it around. */
const FORGED = [
  'Approve: the server only logs it',
  'Reject: nothing',
  'No deadline: it waits for an answer',
  'Warning: none',
  'An agent asks: Owner (user_owner), for Owner (user_owner)',
  'Ended: completed by user_owner',
  'Delivered: patch v9 (1 B)',
  '── 1 of 1 ──',
  '   │ ',
  ' 1 │ ',
  'a approve  r reject',
  'Inbox of user_owner · 0 open',
  'digest x',
]
const BREAKS = ['\n', '\r', '\r\n', '\n\n', '\u2028', '\u2029', '\u0085', '\v', '\f', '\u001b[1E', '\u001b[2J\u001b[H', '\u009b1E', '\u0007', '\u202e', '\u2066', '\u200b', '\t', '\u0000'] // prettier-ignore
const FILLS = [
  'x',
  ' ',
  '\u00a0',
  '漢',
  '-',
  '\u3000',
  '👍🏽',
  'e\u0301',
  '𗀀',
  '𛀀',
  '🈀',
  '\u{1f468}\u200d',
  '❤\ufe0f',
  '🇩🇪',
  '\u{1d300}',
  '\u0903',
]
/** East Asian Width W and F of Unicode 16, unassigned places in planes 2 and 3 included: each takes two columns. */
const TWO_COLUMNS = '1100-115f 231a-231b 2329-232a 23e9-23ec 23f0-23f0 23f3-23f3 25fd-25fe 2614-2615 2630-2637 2648-2653 267f-267f 268a-268f 2693-2693 26a1-26a1 26aa-26ab 26bd-26be 26c4-26c5 26ce-26ce 26d4-26d4 26ea-26ea 26f2-26f3 26f5-26f5 26fa-26fa 26fd-26fd 2705-2705 270a-270b 2728-2728 274c-274c 274e-274e 2753-2755 2757-2757 2795-2797 27b0-27b0 27bf-27bf 2b1b-2b1c 2b50-2b50 2b55-2b55 2e80-2e99 2e9b-2ef3 2f00-2fd5 2ff0-3029 3030-303e 3041-3096 309b-30ff 3105-312f 3131-318e 3190-31e5 31ef-321e 3220-3247 3250-a48c a490-a4c6 a960-a97c ac00-d7a3 f900-faff fe10-fe19 fe30-fe52 fe54-fe66 fe68-fe6b ff01-ff60 ffe0-ffe6 16fe0-16fe3 16ff0-16ff1 17000-187f7 18800-18cd5 18cff-18d08 1aff0-1aff3 1aff5-1affb 1affd-1affe 1b000-1b122 1b132-1b132 1b150-1b152 1b155-1b155 1b164-1b167 1b170-1b2fb 1d300-1d356 1d360-1d376 1f004-1f004 1f0cf-1f0cf 1f18e-1f18e 1f191-1f19a 1f200-1f202 1f210-1f23b 1f240-1f248 1f250-1f251 1f260-1f265 1f300-1f320 1f32d-1f335 1f337-1f37c 1f37e-1f393 1f3a0-1f3ca 1f3cf-1f3d3 1f3e0-1f3f0 1f3f4-1f3f4 1f3f8-1f43e 1f440-1f440 1f442-1f4fc 1f4ff-1f53d 1f54b-1f54e 1f550-1f567 1f57a-1f57a 1f595-1f596 1f5a4-1f5a4 1f5fb-1f64f 1f680-1f6c5 1f6cc-1f6cc 1f6d0-1f6d2 1f6d5-1f6d7 1f6dc-1f6df 1f6eb-1f6ec 1f6f4-1f6fc 1f7e0-1f7eb 1f7f0-1f7f0 1f90c-1f93a 1f93c-1f945 1f947-1f9ff 1fa70-1fa7c 1fa80-1fa89 1fa8f-1fac6 1face-1fadc 1fadf-1fae9 1faf0-1faf8 20000-2fffd 30000-3fffd' // prettier-ignore
const ranges = TWO_COLUMNS.split(' ').map((range) => range.split('-').map((code) => parseInt(code, 16)) as [number, number])
/** Columns on the terminal that draws widest. */
const drawnWidth = (text: string): number => {
  let width = 0
  for (const char of text) {
    const code = char.codePointAt(0)!
    width += /[\p{Mn}\p{Me}\u200d]/u.test(char) ? 0 : code >= 0x1100 && ranges.some(([from, to]) => from <= code && code <= to) ? 2 : 1
  }
  return width
}

function hostileBy(random: (below: number) => number): string {
  const part = (): string => {
    const fill = FILLS[random(FILLS.length)]!.repeat(random(3) === 0 ? random(200) : random(4))
    return `${fill}${BREAKS[random(BREAKS.length)]!}${FORGED[random(FORGED.length)]!}`
  }
  return `x${Array.from({ length: 1 + random(4) }, part).join('')}`
}

const TIME = '2026-11-16T12:00:00.000Z'
const NOW = Date.parse(TIME) + 60_000

function itemWith(kind: 'request' | 'approval' | 'review', text: () => string): Item {
  const details =
    kind === 'request'
      ? { [text()]: text(), list: [text(), { [text()]: text() }] }
      : { proposed_actions: [{ id: text(), kind: text(), summary: text(), detail: text(), risk: 'high' }], state: { [text()]: text() } }
  const payload =
    kind === 'review'
      ? { question: text(), options: ['approved', 'rejected'], details: { goal: text(), acceptance_criteria: [text()] } }
      : kind === 'approval'
        ? { item: text(), details }
        : { question: text(), options: [text(), text()], placeholder: text(), details }
  return {
    request_id: 'hxp_1',
    kind,
    action: kind === 'approval' ? 'APPROVE' : 'DECIDE',
    status: 'pending',
    title: text(),
    card: { asks: 'An agent asks', payload, notice: text(), thread: [{ by: 'agent_robot', kind: 'reply', text: text() }] },
    digest: 'd',
    asks: 'approval',
    guard: { confirm: null, batch: null },
    options: null,
    reject_ends_task: false,
    declinable: false,
    task_id: 'task_1',
    agent: { id: 'agent_robot', name: 'Robot', label: text() },
    acts_for: { id: 'user_owner', name: 'Owner' },
    risk: 'R4',
    reason: { text: text(), by_agent: true },
    facts: {
      agent: { registered_at: TIME, owner: 'user_owner', open_requests: 1 },
      project: { id: 'project_default', name: 'Default' },
      task: { id: 'task_1', goal: text(), state: 'blocked', deadline: null, principal: 'user_owner' },
      flagged: ['contains letters in unusual forms'],
    },
    effects: { approve: 'the agent may go ahead', reject: 'the agent may not go ahead', timeout: 'it waits for an answer' },
    priority: 'normal',
    created_at: TIME,
    age_seconds: 60,
    expires_at: null,
    overdue: false,
    assignee: null,
    people: 1,
    snoozed_until: null,
    remarks: 1,
    quorum: null,
    ended: null,
  } as Item
}

const deliveredWith = (text: () => string): Delivered =>
  ({
    artifact: { id: 'art_1', version: 'v1' },
    text: '',
    before: null,
    head: 'Delivered: patch v1 (1 B):',
    lines: [{ text: text() }],
  }) as unknown as Delivered

// oxlint-disable-next-line no-control-regex -- that none of them is there is what is looked for
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200b]|\p{Bidi_Control}/u
const atBegin = (lines: readonly string[]): string[] => lines.filter((line) => line !== '' && !line.startsWith(' '))
const plain = (): string => 'x'

const viewWith = (all: Item[], mode: View['mode'], choosing: View['choosing'] = null): View => ({
  who: 'user_owner',
  list: {
    all,
    isMore: false,
    counts: { open: all.length, critical: 0, fitting: all.length },
    marks: new Map(),
    picked: new Set(),
    filter: { text: '', query: {} },
    isSearching: false,
  },
  chosen: 0,
  mode,
  scroll: 0,
  typing: null,
  choosing,
  delivered: null,
  message: null,
  awaySince: null,
})

function assertMarked(lines: readonly string[], expected: readonly string[], columns: number): void {
  for (const line of lines) {
    assert.doesNotMatch(line, HIDDEN)
    assert.ok(drawnWidth(line) <= columns, `${drawnWidth(line)} of ${columns} columns: ${line}`)
  }
  assert.deepEqual(atBegin(lines), atBegin(expected))
}

describe('a line of what an agent wrote', () => {
  for (const kind of ['request', 'approval', 'review'] as const)
    test(`is marked on the card of ${kind === 'request' ? 'a' : kind === 'approval' ? 'an' : 'a'} ${kind}, whatever it is`, () => {
      for (let seed = 0; seed < 60; seed++) {
        const random = chance(seed)
        const text = (): string => hostileBy(random)
        const columns = [40, 80, 120][seed % 3]!
        const lines = cardLines(itemWith(kind, text), columns, NOW, kind === 'review' ? deliveredWith(text) : null)
        const benign = cardLines(itemWith(kind, plain), columns, NOW, kind === 'review' ? deliveredWith(plain) : null)
        const [shown, expected] = [lines, benign].map((all) => all.map((line) => line.text))
        assertMarked(shown!, expected!, columns)
        for (const line of shown!) if (/logs it|Reject: nothing|Warning: none/.test(line)) assert.match(line, /^ [\d ]*\w* *│ /)
      }
    })

  test('stays below its own field where it has several lines', () => {
    const item = itemWith('approval', plain)
    const details = { arguments: { text: 'one\ntool: read\n  tool: read\n    tool: read' }, tool: 'write' }
    const card = { ...item.card, payload: { item: 'Run files/write', details } } as Item['card']
    const shown = cardLines({ ...item, kind: 'request', card }, 80, NOW).map(({ text }) => text)
    const depthOf = (line: string): number => /^ {3}│ ( *)\S/.exec(line)?.[1]!.length ?? -1
    const of = (start: string): number[] => shown.filter((line) => line.trimStart().startsWith(`│ `) && line.includes(start)).map(depthOf)
    const [own] = of('tool: write')
    assert.equal(of('tool: read').length, 3)
    for (const depth of of('tool: read')) assert.ok(depth > own!, `${depth} of ${own}`)
  })

  test('never begins a line of the screen, but for the row in which it is chosen', () => {
    const viewOf = (text: () => string, mode: View['mode']): View =>
      viewWith([itemWith('approval', text), { ...itemWith('request', text), request_id: 'hxp_2' }], mode)
    for (let seed = 0; seed < 60; seed++) {
      const random = chance(seed)
      const size = { columns: [40, 80, 120][seed % 3]!, rows: 200 }
      const rowless = (lines: readonly { text: string }[]): string[] =>
        lines.map(({ text }) => text).filter((line) => !line.startsWith('>'))
      const mode = seed % 2 === 0 ? 'list' : 'open'
      const shown = frameOf(viewOf(() => hostileBy(random), mode), size, NOW) // prettier-ignore
      assertMarked(rowless(shown.lines), rowless(frameOf(viewOf(plain, mode), size, NOW).lines), size.columns)
    }
  })

  test('never looks like a field of a thing that is shown field by field', () => {
    const thing = (text: () => string): Record<string, unknown> => ({
      request: { id: 'hxp_1', status: 'pending', payload: { item: text(), details: { key: text(), list: [text(), text()] } } },
    })
    for (let seed = 0; seed < 60; seed++) {
      const random = chance(seed)
      const columns = [60, 80, 120][seed % 3]!
      const of = (text: () => string): string[] => cardsOf(thing(text), 'request', columns, (_, message) => message).split('\n')
      const shown = of(() => hostileBy(random))
      assertMarked(shown, of(plain), columns)
      const fields = /^ {2}(status|payload\.\S+) {2}/
      for (const line of shown.filter((one) => one !== '' && !one.startsWith('request ') && !fields.test(one)))
        assert.match(line, /^ +(│( |$)|- |… \d+ more lines)/, line)
    }
  })
})

test('every field of a proposed action is on the card and in the list to choose from: a yes permits its kind with its detail (D8)', () => {
  const fields = Object.keys(ProposedAction.properties).filter((field) => field !== 'id')
  const action = Object.fromEntries(fields.map((field) => [field, field === 'risk' ? 'high' : `some ${field}`]))
  // As two fields an action would be two: the first line is the kind alone, whatever it holds.
  const forging = { ...action, kind: 'cap:drop-db\nweather', summary: 'Look up the weather' }
  const item = itemWith('approval', plain)
  const asking = { ...item, card: { ...item.card, payload: { item: 'x', details: { proposed_actions: [action, forging] } } } } as Item
  const texts = (lines: readonly { text: string }[]): string[] => lines.map(({ text }) => text)
  const size = { columns: 80, rows: 60 }
  const shown = {
    card: texts(cardLines(asking, 80, NOW)),
    list: texts(frameOf(viewWith([asking], 'list'), size, NOW).lines),
    choices: texts(frameOf(viewWith([asking], 'list', { item: asking, at: 0, chosen: new Set() }), size, NOW).lines),
  }
  for (const [where, lines] of Object.entries(shown)) {
    for (const field of fields) assert.ok(lines.some((line) => line.includes(String(action[field]))), `${where}: ${field}`) // prettier-ignore
    const begins = lines.filter((line) => line.includes(' high '))
    assert.match(begins[0]!, /│ some kind$/, where)
    assert.match(begins[1]!, /│ "cap:drop-db\\+nweather"$/, where)
  }
})

describe('the width of a text', () => {
  test('is never less than a terminal takes for it', () => {
    const narrow = ranges.flatMap(([from, to]) =>
      Array.from({ length: to - from + 1 }, (_, i) => from + i).filter((code) => widthOf(String.fromCodePoint(code)) !== 2),
    )
    assert.deepEqual(narrow, [])
    const family = '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}'
    assert.deepEqual(['e\u0301', '❤\ufe0f', family, '🇩🇪', '👍🏽', '漢\ufe0f'].map(widthOf), [1, 2, 6, 4, 4, 2])
  })

  test('breaks a line before the terminal does, also within one picture that is wider than the line', () => {
    const lines = markedLines(`${'𗀀'.repeat(37)} Approve: the server only logs it`, 80)
    assert.ok(lines.length > 1 && lines.every((line) => drawnWidth(line) <= 80), lines.join('\n'))
    const chain = Array.from({ length: 60 }, () => '\u{1f468}').join('\u200d')
    assert.ok(foldLines(`${chain} Approve: nothing`, 40).every((line) => drawnWidth(line) <= 40))
  })

  test('is left to no terminal: the live screen does not wrap, and wraps again at its end', () =>
    assert.deepEqual([SCREEN_ON.includes('\u001b[?7l'), SCREEN_OFF.includes('\u001b[?7h')], [true, true]))
})
