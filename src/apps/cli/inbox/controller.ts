// The controller of the terminal inbox: handles keys, the chosen item, the typed text and the answer. An answer carries the digest of the
// card on the screen, and is sent only after the whole card was visible long enough.
import type { Item } from '#protocols/execution/inbox/item.ts'
import { createDeliverables, isShown } from './deliverable.ts'
import { CliError, exits, type Exit } from '../exit-codes.ts'
import { createInboxActions, type Prompt, type Stage } from './actions.ts'
import { choicesOf, isOpen, proposedIn } from './card.ts'
import { choosingAfter, type Choosing } from './choose-actions.ts'
import { approveSome, editAndApprove } from './edit.ts'
import { filterFrom, whoseIn } from './filter.ts'
import { answersOf, answersWith, stepOf, isGrantable, verdictOf } from './keyboard-help.ts'
import type { InboxList } from './list.ts'
import type { Terminal } from './live.ts'
import { answerMany } from './marked-items.ts'
import { createConnection, createNews } from './news.ts'
import { drawFrame, frameOf, type Frame, type View } from './screen.ts'
import type { Key } from '../input/keyboard.ts'
import { editLine, newLine } from '../input/line-editor.ts'
import type { Remote } from '../remote/remote.ts'
import { escapeControl } from '../output/safe-text.ts'

/** An item that is younger on the screen was not read yet: the key was meant for the item that was shown there before. */
const UNREAD_MS = 250
const UNSHOWN =
  'It cannot be shown here: open the review on the page, or download it and `countersign review approve` it with its --version'

export type InboxController = {
  press(keys: readonly Key[]): void
  draw(): void
  /** An event about a request has arrived. */
  heard(request_id: string): void
  /** Whether the stream of news is connected. */
  live(isLive: boolean): void
  refresh(): Promise<void>
  /** Reads more pages if the first one does not fill the screen. */
  begin(): void
  trouble(error: unknown): void
  readonly over: Promise<Exit>
  leave(exit: Exit): void
  /** The answers that were given, for the terminal as it was before. */
  readonly said: readonly string[]
}

export function createInboxController(remote: Remote, items: InboxList, who: string, terminal: Terminal): InboxController {
  const { paint, size, write } = terminal
  const over = Promise.withResolvers<Exit>()
  const sentences: string[] = []
  const deliveredFor = createDeliverables(remote, attempt)
  /** When a whole card was first on the screen, by its digest. */
  const seen = new Map<string, number>()
  /** The card on the screen, and since when: a key pressed right after a change was meant for the previous card. */
  let onScreen = { digest: '', since: 0 }
  let [isOver, isAside] = [false, false]
  let mode: View['mode'] = 'list'
  let scroll = 0
  let prompt: Prompt | null = null
  let wasKey = false
  let choosing: Choosing | null = null
  let message: View['message'] = null
  let frame: Frame | null = null
  const connection = createConnection(() => now())

  /** -1: the item is not in the list. Then keys answer nothing until another item is shown. */
  const place = (): number => items.all.findIndex(({ request_id }) => request_id === items.chosen)
  const current = (): Item | undefined => items.all[place()]
  const now = (): number => Date.now() + items.skewMs
  const tell: Stage['tell'] = (text, style = 'yellow') => void (message = { text, style })

  function draw(): void {
    if (isOver || isAside) return
    if (place() < 0) items.chosen = items.all[0]?.request_id ?? null
    const item = current()
    if (item && item.digest !== onScreen.digest) onScreen = { digest: item.digest, since: performance.now() }
    const shown: View = {
      who,
      list: items,
      chosen: place(),
      mode,
      scroll,
      typing: prompt,
      choosing,
      delivered: item === undefined ? null : deliveredFor(item),
      message,
      awaySince: connection.awaySince,
    }
    frame = frameOf(shown, size(), now())
    scroll = Math.min(scroll, frame.scrollMax)
    if (item && frame.isWhole && !seen.has(item.digest)) seen.set(item.digest, performance.now())
    write(drawFrame(frame, paint))
  }

  /** Shows an error on the screen; leaves the inbox on a bug or without a valid key. */
  function trouble(error: unknown): void {
    if (!(error instanceof CliError) || error.exit === exits.unauthenticated) return leave(error)
    if (error.exit === exits.unreachable) connection.lost('calls', true)
    else tell(error.message, 'red')
    draw()
  }
  function leave(how: unknown): void {
    isOver = true
    if (typeof how === 'number') over.resolve(how as Exit)
    else over.reject(how)
  }
  async function attempt(work: () => Promise<void>): Promise<void> {
    try {
      draw()
      await work()
      connection.lost('calls', false)
      draw()
    } catch (error) {
      trouble(error)
    }
  }

  /** Selects the next item that can be answered, otherwise the previous one. */
  function moveOn(request_id: string): void {
    if (request_id !== items.chosen) return
    const isFree = (item: Item): boolean => isOpen(item) && !items.marks.has(item.request_id)
    const at = place()
    const next = items.all.slice(at + 1).find(isFree) ?? items.all.slice(0, at).findLast(isFree)
    if (next === undefined) return
    items.chosen = next.request_id
    scroll = 0
    if (place() >= items.all.length - 1 && items.isMore) void attempt(items.more)
  }

  function openPrompt(more: Pick<Prompt, 'label' | 'done'> & Partial<Prompt>): void {
    prompt = { line: newLine(''), hidden: false, isKey: false, ...more }
  }
  const stage: Stage = {
    items,
    tell,
    attempt,
    ask: (label, done, hidden = false) => openPrompt({ label, hidden, done }),
    askKey: (label, done) => openPrompt({ label, isKey: true, done }),
    answered({ title, request_id }, message) {
      sentences.push(`${paint('green', '✔')} ${escapeControl(message)}: ${escapeControl(title)} (${escapeControl(request_id)})\n`)
      tell(`✔ ${message}: ${title}`, 'green')
      moveOn(request_id)
    },
    upload: ({ request_id }, path) => terminal.upload(request_id, path),
    async aside(work) {
      isAside = true
      try {
        return await terminal.aside(work)
      } finally {
        isAside = false
        draw()
      }
    },
  }
  const answers = createInboxActions(remote, stage)

  /** False: the key does not move the selection. */
  function move(name: string): boolean {
    const page = frame?.page ?? 1
    const far = Number.MAX_SAFE_INTEGER
    const by = name === ' ' && mode !== 'list' ? page : stepOf(name, page)
    if (by === undefined) return false
    if (mode !== 'list') scroll = Math.max(0, Math.min(far, scroll + by))
    else if (by === far) void attempt(toEnd)
    else {
      const at = Math.max(0, Math.min(items.all.length - 1, place() + by))
      items.chosen = items.all[at]?.request_id ?? null
      if (at >= items.all.length - 1 && items.isMore) void attempt(items.more)
    }
    return true
  }
  async function toEnd(): Promise<void> {
    await items.toEnd()
    items.chosen = items.all.at(-1)?.request_id ?? null
  }

  /** Whether the whole item was on the screen long enough; otherwise tells the person what to do first. */
  function isRead(item: Item): boolean {
    const since = seen.get(item.digest)
    if (since === undefined) {
      items.chosen = item.request_id
      mode = 'open'
      tell('Scroll to the end (↓ or space) before you answer')
    } else if (performance.now() - Math.max(since, item.digest === onScreen.digest ? onScreen.since : 0) < UNREAD_MS)
      tell('Press again to confirm')
    else return true
    return false
  }

  /** Whether the key would approve a deliverable that the card does not show. */
  function isBlind(item: Item, key: string): boolean {
    const result = verdictOf(item, key.toLowerCase()) ?? choicesOf(item)[Number(key) - 1]
    const delivered = item.kind === 'review' && result === 'approved' ? deliveredFor(item) : null
    return delivered !== null && delivered !== undefined && !isShown(delivered)
  }
  function answerByKey(key: string): void {
    if (answers.isBusy) return
    const marked = items.all.filter(({ request_id }) => items.picked.has(request_id))
    if (marked.length > 0 && /^[aArR]$/.test(key)) {
      const blind = marked.find((item) => isBlind(item, key))
      if (blind !== undefined) {
        items.chosen = blind.request_id
        return tell(UNSHOWN, 'red')
      }
      const unread = marked.find(({ digest }) => !seen.has(digest))
      if (isRead(unread ?? marked.at(-1)!)) answerMany(remote, stage, answers, marked, key)
      return
    }
    const item = current()
    if (!item) return
    // An event has arrived that is not drawn yet.
    if (item.digest !== onScreen.digest) return tell('Press again to confirm')
    const mark = items.marks.get(item.request_id)
    if (mark !== undefined || !isOpen(item)) return tell(`It is ${mark ?? item.status} already: Ctrl-L refreshes the list`)
    if (key === 'm') return answers.question(item)
    if (key === 's') return answers.snooze(item)
    if (key === '+') return isGrantable(item) ? answers.grant(item) : tell('A grant is for what an agent wants to do in a task')
    if (!answersWith(item, key)) {
      const message = answersOf(item).map(([key, does]) => `${key} ${does}`).join(', ') // prettier-ignore
      return tell(`Keys for this item: ${message}`)
    }
    if (isBlind(item, key)) return tell(UNSHOWN, 'red')
    if (!isRead(item)) return
    if (key === 'x') choosing = { item, at: 0, chosen: new Set() }
    else if (key === 'e') void editAndApprove(remote, stage, answers, item, terminal.env)
    else answers.answer(item, key)
  }

  /** The choice of the actions; nothing is sent before the confirmation. */
  function choose(before: Choosing, name: string): void {
    const { item, chosen } = before
    const count = proposedIn(item).length
    choosing = name === 'enter' ? null : choosingAfter(before, name, count)
    if (name === 'enter') approveSome(remote, stage, answers, item, [...chosen].toSorted((a, b) => a - b), count) // prettier-ignore
  }

  function pick(): void {
    const item = current()
    if (!item || !isOpen(item) || items.marks.has(item.request_id)) return
    if (!items.picked.delete(item.request_id)) items.picked.add(item.request_id)
    move('down')
  }

  async function search(text: string): Promise<void> {
    await attempt(async () => {
      await items.reset(filterFrom(text, whoseIn(items.filter.query)))
      await refill()
    })
  }
  async function refill(): Promise<void> {
    await items.fillScreen()
    await items.recount()
  }

  function type(open: Prompt, key: Key): void {
    if (key.name === 'esc') prompt = null
    else if (open.isKey) {
      // Ignore an Enter typed after the y out of habit: it is not meant for the next item.
      wasKey = true
      prompt = null
      message = null
      void open.done(key.name === 'character' ? key.text : '')
    } else if (key.name === 'enter') {
      prompt = null
      message = null
      void open.done(open.line.text)
    } else open.line = editLine(open.line, key)
  }

  /** Never leaves the screen, so one esc too many does no harm. */
  function back(): void {
    if (mode !== 'list') mode = 'list'
    else if (items.picked.size > 0) items.picked.clear()
    else if (items.filter.text !== '') void search('')
    else tell('q quits')
  }

  function press(key: Key, isAlone: boolean): void {
    const isBehind = wasKey && key.name === 'enter'
    wasKey = false
    if (isBehind) return
    if (key.name === 'ctrl-c' || (key.name === 'ctrl-d' && prompt === null)) return leave(exits.ok)
    if (key.name === 'ctrl-z') return void stage.aside(terminal.suspend).then(refresh)
    if (prompt !== null) return type(prompt, key)
    if (key.name === 'paste') return
    const name = key.name === 'character' ? key.text : key.name
    message = null
    if (choosing !== null) return choose(choosing, name)
    if (mode === 'help' && !move(name)) mode = 'list'
    else if (mode === 'help' || move(name)) return
    else if (name === 'q') leave(exits.ok)
    else if (name === ' ') pick()
    else if (name === 'esc' || (mode === 'open' && (name === 'left' || name === 'enter'))) back()
    else if (name === 'enter' || name === 'right') open('open')
    else if (name === '?') open('help')
    else if (name === '/') editFilter()
    else if (name === 'ctrl-l') void search(items.filter.text)
    // Several keys in one read, such as a paste, are not a single-key answer.
    else if (isAlone && /^[1-9aArRcdehmpstx+]$/.test(name)) answerByKey(name)
  }
  const open = (next: View['mode']): void => void ([mode, scroll] = [next, 0])
  function editFilter(): void {
    const label = 'Filter: words, kind:review priority:high agent:… @saved; empty: everything'
    openPrompt({ label, line: newLine(items.filter.text), done: search })
  }

  const refresh = (): Promise<void> =>
    attempt(async () => {
      await items.refresh()
      await items.recount()
    })

  return {
    press(keys) {
      for (const key of keys) press(key, keys.length === 1)
      draw()
    },
    draw,
    heard: createNews(items, attempt),
    live(isLive) {
      const wasLive = connection.lost('stream', !isLive)
      draw()
      if (isLive && !wasLive) void refresh()
    },
    refresh,
    begin: () => void attempt(refill),
    trouble,
    over: over.promise,
    leave,
    said: sentences,
  }
}
