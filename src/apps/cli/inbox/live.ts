// The inbox on a real terminal: reads keys, draws frames, follows the news of the server, and restores the terminal at the end.
import { setTimeout as wait } from 'node:timers/promises'
import { CliError, exits, type Exit } from '../exit-codes.ts'
import { sentFile } from '../commands/artifact.ts'
import type { Stage } from './actions.ts'
import { createInboxController, type InboxController } from './controller.ts'
import { filterOf, personIn, type Query } from './filter.ts'
import { createInboxList } from './list.ts'
import { CLEAR, SCREEN_OFF, SCREEN_ON, type Size } from './screen.ts'
import { createKeyboard, PASTE_OFF, PASTE_ON } from '../input/keyboard.ts'
import type { Remote } from '../remote/remote.ts'
import type { Context } from '../derive/command.ts'
import type { Paint } from '../terminal.ts'

const REFRESH_MS = 20_000
/** The list is shown after this time even if the stream does not open. */
const OPEN_MS_MAX = 2_000
const AGAIN_MS = 2_000
const TICK_MS = 1_000
/** A shell without job control does not stop the process; then it resumes by itself after this time. */
const RESUME_MS = 50

export type Terminal = {
  readonly paint: Paint
  readonly env: NodeJS.ProcessEnv
  size(): Size
  write(text: string): void
  aside: Stage['aside']
  upload(request_id: string, path: string): Promise<unknown>
  /** Releases the terminal and stops until the shell resumes the process. */
  suspend(): Promise<void>
}

export async function liveInbox(context: Context, remote: Remote, query: Query): Promise<Exit> {
  const { io, paint } = context
  const screen = io.out as NodeJS.WriteStream
  const me = await remote.call('identity/me.get', {})
  const who = me.name ?? me.id
  let controller: InboxController | null = null
  const items = createInboxList(remote, filterOf(query), () => controller?.draw())
  const leaving = new AbortController()
  const news = await follow(remote, leaving.signal)
  try {
    await items.reset(items.filter)
  } catch (error) {
    leaving.abort()
    throw error
  }
  const keys = createKeyboard((pressed) => controller?.press(pressed))
  const take = (text: string): void => keys.push(text)
  const on = (): void => {
    io.input.setRawMode(true)
    io.input.setEncoding('utf8')
    io.input.on('data', take).resume()
    screen.write(`${SCREEN_ON}${PASTE_ON}${CLEAR}`)
  }
  const off = (): void => {
    io.input.off('data', take).pause()
    io.input.setRawMode(false)
    screen.write(`${PASTE_OFF}${SCREEN_OFF}`)
  }
  const terminal: Terminal = {
    paint,
    env: io.env,
    size: () => ({ columns: screen.columns || 80, rows: screen.rows || 24 }),
    write: (text) => void screen.write(text),
    async aside(work) {
      off()
      try {
        return await work()
      } finally {
        on()
      }
    },
    // Discard its progress line, which would be drawn over the screen.
    upload: (request_id, path) => sentFile({ ...context, io: { ...io, err: { write: () => undefined } } }, request_id, path),
    async suspend() {
      // Stop the whole process group, as the shell expects; `fg` continues below.
      process.kill(0, 'SIGTSTP')
      await wait(RESUME_MS)
    },
  }
  const inbox = (controller = createInboxController(remote, items, personIn(query) ?? who, terminal))
  const end = (): void => inbox.leave(exits.interrupted)
  const onResize = (): void => {
    screen.write(CLEAR)
    inbox.draw()
  }
  // Ages and deadlines move by themselves.
  const timers = [setInterval(inbox.draw, TICK_MS), setInterval(() => void inbox.refresh(), REFRESH_MS)]
  io.input.on('end', end)
  screen.on('resize', onResize)
  process.on('SIGTERM', end).on('SIGHUP', end)
  on()
  inbox.begin()
  try {
    news.tell(inbox)
    return await inbox.over
  } finally {
    leaving.abort()
    keys.stop()
    timers.forEach(clearInterval)
    io.input.off('end', end)
    screen.off('resize', onResize)
    process.off('SIGTERM', end).off('SIGHUP', end)
    off()
    screen.write(inbox.said.join(''))
  }
}

/** Follows before the first list is read, so that no change is missed; the controller gets queued changes once it exists. */
async function follow(remote: Remote, signal: AbortSignal): Promise<{ tell(controller: InboxController): void }> {
  const opened = Promise.withResolvers<void>()
  const before: ((controller: InboxController) => void)[] = []
  let controller: InboxController | null = null
  const tell = (news: (controller: InboxController) => void): void => void (controller === null ? before.push(news) : news(controller))
  const onOpen = (): void => {
    opened.resolve()
    tell((known) => known.live(true))
  }
  const pump = async (): Promise<void> => {
    const onBreak = (): void => tell((known) => known.live(false))
    const items = remote.follow('execution/inbox.follow', {}, { after: 'latest', signal, onOpen, onBreak })
    for await (const { item } of items) tell((known) => known.heard(item['request_id'] as string))
  }
  const again = async (): Promise<void> => {
    try {
      await pump()
    } catch (error) {
      const isAway = error instanceof CliError && error.exit === exits.unreachable
      tell((known) => (isAway ? known.live(false) : known.trouble(error)))
      if (isAway && !signal.aborted) setTimeout(() => void again(), AGAIN_MS).unref()
    } finally {
      opened.resolve()
    }
  }
  void again()
  const late = setTimeout(opened.resolve, OPEN_MS_MAX)
  await opened.promise
  clearTimeout(late)
  return {
    tell(known) {
      controller = known
      for (const news of before.splice(0)) news(known)
    },
  }
}
