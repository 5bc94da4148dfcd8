// The live connection: events of the inbox and of the data on the page. Events only mark cached data as stale and never decide anything.
import type { Input, Output, StreamName } from '#sdk/index.ts'
import { createListeners, createStore } from '../parts/store.ts'
import { client, queries, session } from './client.ts'

export type Connection = 'live' | 'reconnecting' | 'offline'
export type News = Output<'execution/inbox.follow'>

type State = { readonly connection: Connection; readonly lastNewsAt: number; readonly brokeAt: number | null }
const state = createStore<State>(
  navigator.onLine
    ? { connection: 'reconnecting', lastNewsAt: Date.now(), brokeAt: null }
    : { connection: 'offline', lastNewsAt: Date.now(), brokeAt: Date.now() },
)
const newsListeners = createListeners<[News]>()
const backListeners = createListeners()
const liveListeners = createListeners()

function become(connection: Connection): void {
  const now = Date.now()
  const { brokeAt, lastNewsAt } = state.get()
  const isBack = connection === 'live'
  state.set({ connection, brokeAt: isBack ? null : (brokeAt ?? now), lastNewsAt: isBack ? now : lastNewsAt })
}

export const useConnection = (): State => state.use()

export const isLive = (): boolean => state.get().connection === 'live'

export const onNews = newsListeners.add
/** Called when the connection is back after a break: events might have been missed. */
export const onBack = backListeners.add
/** Called on every connect and reconnect: data read before it might be stale. */
export const onLive = liveListeners.add

/** The server is unreachable and no event has arrived yet: the service worker served the page from its cache. */
export function noteSilence(): void {
  if (!isLive() && state.get().brokeAt === null) become(navigator.onLine ? 'reconnecting' : 'offline')
}

export function lookNow(): void {
  void queries.invalidateQueries()
  liveListeners.notify()
  backListeners.notify()
}

const NAMES: readonly unknown[] = ['me', 'people', 'agents', 'projects', 'filters']
/** Refetches data that was read before the connection opened and might have changed since. Names are left out: they seldom change. */
function catchUp(): void {
  void queries.invalidateQueries({ predicate: ({ queryKey }) => !NAMES.includes(queryKey[0]) })
  liveListeners.notify()
}

let following: AbortController | null = null
let [wasOpen, isOpen] = [false, false]

async function follow(signal: AbortSignal): Promise<void> {
  const options = {
    after: 'latest',
    signal,
    onOpen() {
      isOpen = true
      become('live')
      if (wasOpen) lookNow()
      else catchUp()
      wasOpen = true
    },
    onBreak() {
      isOpen = false
      become(navigator.onLine ? 'reconnecting' : 'offline')
    },
  }
  for await (const { item } of client.follow('execution/inbox.follow', {}, options)) {
    state.set({ ...state.get(), lastNewsAt: Date.now() })
    newsListeners.notify(item)
  }
}

async function keepFollowing(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await follow(signal)
    } catch {
      become(navigator.onLine ? 'reconnecting' : 'offline')
    }
    isOpen = false
    await new Promise((done) => setTimeout(done, session.isOut() ? 5_000 : 1_000))
  }
}

const ASKED_MS = 3_000
const SILENCE_MS = 4_000
/**
 * A connection can stay open after its server is gone, so a visible page probes the server regularly. Any response counts as a sign of
 * life.
 */
async function keepAsking(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await new Promise((done) => setTimeout(done, ASKED_MS))
    if (signal.aborted || !isOpen || document.visibilityState === 'hidden') continue
    const isThere = await fetch('/ready', { cache: 'no-store', signal: AbortSignal.timeout(SILENCE_MS) }).then(
      () => true,
      () => false,
    )
    if (signal.aborted || !isOpen) continue
    if (!isThere && isLive()) become(navigator.onLine ? 'reconnecting' : 'offline')
    else if (isThere && state.get().connection === 'reconnecting') become('live')
  }
}

export function goLive(): () => void {
  following?.abort()
  const mine = (following = new AbortController())
  if (!navigator.onLine) become('offline')
  void keepFollowing(mine.signal)
  void keepAsking(mine.signal)
  return () => mine.abort()
}

// Registered before the sign-in is known: a page that was opened offline says so.
addEventListener('offline', () => become('offline'))
addEventListener('online', () => {
  become('reconnecting')
  if (following === null) lookNow()
  else goLive()
})

const TOGETHER_MS = 60
/**
 * Debounces `look`: one call for a burst, never two concurrently, and one more for events during a call. A steady stream of events does not
 * postpone it.
 */
export function steadily(look: () => Promise<unknown>, pauseMs = TOGETHER_MS): () => void {
  let [isNew, isLooking] = [false, false]
  async function run(): Promise<void> {
    isLooking = true
    while (isNew) {
      await new Promise((done) => setTimeout(done, pauseMs))
      isNew = false
      await look().catch(() => undefined)
    }
    isLooking = false
  }
  return () => {
    isNew = true
    if (!isLooking) void run()
  }
}

/** Follows a stream while a page shows its subject. */
export function followLive<N extends StreamName>(operation: N, input: Input<N>, told: () => void): () => void {
  const leaving = new AbortController()
  const run = async (): Promise<void> => {
    for await (const _ of client.follow(operation, input, { after: 'latest', signal: leaving.signal })) told()
  }
  // Without events the page still shows its loaded data, and the banner reports the lost connection.
  run().catch(() => undefined)
  return () => leaving.abort()
}
