// The inbox at a terminal: one key is one answer. An answer goes out with the digest of what was on the screen, and only once all of it
// was there long enough to be seen.
import type { Item } from '#protocols/execution/inbox.ts'
import { CliError, exits, type Exit } from './exits.ts'
import { createAnswers, type Prompt, type Stage } from './inbox-answers.ts'
import { isOpen } from './inbox-card.ts'
import { createItems, filterFrom, noFilter, type Items, type Query } from './inbox-items.ts'
import { answersOf, CLEAR, drawn, frameOf, SCREEN_OFF, SCREEN_ON, type Size, type View } from './inbox-screen.ts'
import { createKeys, PASTE_OFF, PASTE_ON, type Key } from './keys.ts'
import type { Remote } from './remote.ts'
import type { Context } from './spec.ts'
import type { Paint } from './terminal.ts'
import { inert } from './text.ts'

/** What is younger on the screen than this was not read yet: the key was meant for what stood there before. */
const UNREAD_MS = 250
const REFRESH_MS = 20_000
/** Where nothing can be followed, the list is shown all the same. */
const OPEN_MS_MAX = 2_000
/** Changes that come together are looked at together. */
const GATHER_MS = 100
const TICK_MS = 1_000
const TYPED_CHARS_MAX = 20_000

type Terminal = { readonly paint: Paint; size(): Size; write(text: string): void }
type Desk = {
  press(keys: readonly Key[]): void
  draw(): void
  /** Something was heard about a request. */
  heard(request_id: string): void
  refresh(): Promise<void>
  trouble(error: unknown): void
  readonly over: Promise<Exit>
  leave(exit: Exit): void
  /** What was answered, for the terminal as it was before. */
  readonly said: readonly string[]
}

export async function liveInbox({ io, paint }: Context, remote: Remote, query: Query): Promise<Exit> {
  const screen = io.out as NodeJS.WriteStream
  const { id: who }: { id: string } = await remote.call('identity/me.get', {})
  const items = createItems(remote, noFilter(query))
  const leaving = new AbortController()
  const news = await follow(remote, leaving.signal)
  try {
    await items.reset(items.filter)
  } catch (error) {
    leaving.abort()
    throw error
  }
  const size = (): Size => ({ columns: screen.columns || 80, rows: screen.rows || 24 })
  const desk = createDesk(remote, items, who, query, { paint, size, write: (text) => void screen.write(text) })
  const keys = createKeys(desk.press)
  const take = (text: string): void => keys.push(text)
  const end = (): void => desk.leave(exits.interrupted)
  const resized = (): void => {
    screen.write(CLEAR)
    desk.draw()
  }
  // A deadline comes closer by itself.
  const timers = [setInterval(desk.draw, TICK_MS), setInterval(() => void desk.refresh(), REFRESH_MS)]
  io.input.setRawMode(true)
  io.input.setEncoding('utf8')
  io.input.on('data', take).on('end', end).resume()
  screen.on('resize', resized)
  process.on('SIGTERM', end).on('SIGHUP', end)
  screen.write(`${SCREEN_ON}${PASTE_ON}${CLEAR}`)
  desk.draw()
  try {
    news.tell(desk)
    return await desk.over
  } finally {
    leaving.abort()
    keys.stop()
    timers.forEach(clearInterval)
    io.input.off('data', take).off('end', end).pause()
    io.input.setRawMode(false)
    screen.off('resize', resized)
    process.off('SIGTERM', end).off('SIGHUP', end)
    screen.write(`${PASTE_OFF}${SCREEN_OFF}${desk.said.join('')}`)
  }
}

/** Follows before anything is listed: what happens in between is heard, and told to the desk once there is one. */
async function follow(remote: Remote, signal: AbortSignal): Promise<{ tell(desk: Desk): void }> {
  const opened = Promise.withResolvers<void>()
  const before: ((desk: Desk) => void)[] = []
  let desk: Desk | null = null
  const tell = (news: (desk: Desk) => void): void => void (desk === null ? before.push(news) : news(desk))
  const pump = async (): Promise<void> => {
    const items = remote.follow('execution/inbox.follow', {}, { after: 'latest', signal, onOpen: opened.resolve })
    for await (const { item } of items) tell((known) => known.heard(item['request_id'] as string))
  }
  void pump()
    .catch((error: unknown) => tell((known) => known.trouble(error)))
    .finally(opened.resolve)
  const late = setTimeout(opened.resolve, OPEN_MS_MAX)
  await opened.promise
  clearTimeout(late)
  return {
    tell(known) {
      desk = known
      for (const news of before.splice(0)) news(known)
    },
  }
}

function createDesk(remote: Remote, items: Items, who: string, query: Query, { paint, size, write }: Terminal): Desk {
  const over = Promise.withResolvers<Exit>()
  const said: string[] = []
  let isOver = false
  let chosen = items.all[0]?.request_id ?? null
  let mode: View['mode'] = 'list'
  let scroll = 0
  let prompt: Prompt | null = null
  let message: View['message'] = null
  let isAway = false
  /** When the whole of a card was first on the screen, by its digest. */
  const seen = new Map<string, number>()

  // --- The screen ------------------------------------------------------------------------------------------------------------

  const place = (): number => {
    const at = items.all.findIndex(({ request_id }) => request_id === chosen)
    return Math.max(0, at)
  }
  const current = (): Item | undefined => items.all[place()]
  const tell: Stage['tell'] = (text, style = 'yellow') => void (message = { text, style })

  function draw(): void {
    if (isOver) return
    const { all, isMore, marks, filter } = items
    const shown = { who, items: all, isMore, chosen: place(), marks, mode, scroll, typing: prompt, message, filter: filter.text, isAway }
    const frame = frameOf(shown, size(), Date.now())
    scroll = Math.min(scroll, frame.scrollMax)
    const item = current()
    if (item && frame.isWhole && !seen.has(item.digest)) seen.set(item.digest, performance.now())
    write(drawn(frame, paint))
  }

  /** Whatever it is, it is said on the screen; without a valid key there is nothing left to do. */
  function trouble(error: unknown): void {
    if (!(error instanceof CliError) || error.exit === exits.unauthenticated) return fail(error)
    isAway = error.exit === exits.unreachable
    tell(error.message, 'red')
    draw()
  }
  function leave(exit: Exit): void {
    isOver = true
    over.resolve(exit)
  }
  function fail(error: unknown): void {
    isOver = true
    over.reject(error)
  }
  async function attempt(work: () => Promise<void>): Promise<void> {
    try {
      draw()
      await work()
      isAway = false
      draw()
    } catch (error) {
      trouble(error)
    }
  }

  const answers = createAnswers(remote, {
    items,
    tell,
    attempt,
    ask: (label, done, hidden = false) => (prompt = { label, text: '', hidden, done }),
    answered({ title, request_id }, words) {
      said.push(`${paint('green', '✔')} ${inert(words)}: ${inert(title)} (${inert(request_id)})\n`)
      tell(`✔ ${words}: ${title}`, 'green')
    },
  })

  // --- Keys ------------------------------------------------------------------------------------------------------------------

  /** False: it is no key that moves. */
  function move(name: string): boolean {
    const page = Math.max(1, size().rows - 4)
    const far = Number.MAX_SAFE_INTEGER
    const steps = { up: -1, k: -1, down: 1, j: 1, pageup: -page, b: -page, pagedown: page, ' ': page, home: -far, end: far }
    const by = (steps as Readonly<Record<string, number>>)[name]
    if (by === undefined) return false
    if (mode === 'open') {
      scroll = Math.max(0, Math.min(far, scroll + by))
      return true
    }
    const at = Math.max(0, Math.min(items.all.length - 1, place() + by))
    chosen = items.all[at]?.request_id ?? null
    if (at >= items.all.length - 1 && items.isMore) void attempt(items.more)
    return true
  }

  function answering(key: string): void {
    const item = current()
    if (!item || answers.isBusy) return
    const mark = items.marks.get(item.request_id)
    if (mark !== undefined || !isOpen(item)) return tell(`it is ${mark ?? item.status} already: g looks again`)
    if (key === 'q') return answers.question(item)
    if (key === 's') return answers.snooze(item)
    const keys = answersOf(item)
    if (!keys.some(([one]) => one === key.toLowerCase())) {
      const words = keys.map(([one, does]) => `${one} ${does}`).join(', ')
      return tell(words === '' ? 'it takes a file: `countersign inbox answer <id> --file <path>` sends one' : `its keys are: ${words}`)
    }
    const since = seen.get(item.digest)
    if (since === undefined) {
      mode = 'open'
      return tell('read it to its end first, then answer: ↓ or space')
    }
    if (performance.now() - since < UNREAD_MS) return tell('that was too fast to have read it: once again')
    answers.answer(item, key)
  }

  function filtering(): void {
    const done = (text: string): Promise<void> =>
      attempt(async () => {
        await items.reset(text.trim() === '' ? noFilter(query) : filterFrom(text, query))
        chosen = items.all[0]?.request_id ?? null
      })
    prompt = { label: 'Filter: words, priority:high kind:review agent:... @saved; empty shows everything', text: '', hidden: false, done }
  }

  function type(own: Prompt, { name, text }: Key): void {
    if (name === 'esc') prompt = null
    else if (name === 'clear') own.text = ''
    else if (name === 'backspace') own.text = Array.from(own.text).slice(0, -1).join('')
    else if (name === 'enter') {
      prompt = null
      message = null
      void own.done(own.text)
    } else if (name === 'character' || name === 'paste') own.text = (own.text + text).slice(0, TYPED_CHARS_MAX)
  }

  function press(key: Key, isAlone: boolean): void {
    if (key.name === 'ctrl-c' || key.name === 'ctrl-d') return leave(exits.ok)
    if (prompt !== null) return type(prompt, key)
    if (key.name === 'paste') return
    const name = key.name === 'character' ? key.text : key.name
    message = null
    if (mode === 'help') mode = 'list'
    else if (move(name)) return
    else if (name === 'esc' && mode === 'list') leave(exits.ok)
    else if (name === 'esc' || name === 'left' || (name === 'enter' && mode === 'open')) mode = 'list'
    else if (name === 'enter' || name === 'right') {
      mode = 'open'
      scroll = 0
    } else if (name === '?') mode = 'help'
    else if (name === '/') filtering()
    else if (name === 'g') void attempt(() => items.reset(items.filter))
    // Several keys at once are no single-key answer.
    else if (isAlone && /^[1-9aArRpqs]$/.test(name)) answering(name)
  }

  // --- News ------------------------------------------------------------------------------------------------------------------

  const changed = new Set<string>()
  let gathering: NodeJS.Timeout | undefined
  async function gathered(): Promise<void> {
    const ids = [...changed]
    changed.clear()
    const isKnown = (id: string): boolean => items.all.some(({ request_id }) => request_id === id)
    const isNew = ids.some((id) => !isKnown(id))
    for (const id of ids.filter(isKnown)) await items.reload(id)
    if (isNew) await items.refresh()
    chosen ??= items.all[0]?.request_id ?? null
  }

  return {
    press(keys) {
      for (const key of keys) press(key, keys.length === 1)
      draw()
    },
    draw,
    heard(request_id) {
      changed.add(request_id)
      gathering ??= setTimeout(() => {
        gathering = undefined
        if (!isOver) void attempt(gathered)
      }, GATHER_MS)
    },
    refresh: () => attempt(items.refresh),
    trouble,
    over: over.promise,
    leave,
    said,
  }
}
