// The one connection to the server: the SDK with the cookie of this browser, the server's clock, the person the page acts for, and
// the handling of a session that has ended or belongs to another person.
import { QueryClient } from '@tanstack/react-query'
import { createStore } from '../parts/store.ts'
import { signatureOver } from './passkeys.ts'
import { createClient, CountersignError, type CallName, type Client, type Input, type Output } from '#sdk/index.ts'

/** The offset by which this machine's clock is behind the server's. */
let behindMs = 0
/** The server's time, independent of this machine's clock. */
export const serverNow = (): number => Date.now() + behindMs

function noteTime(answer: Response, sentAt: number): void {
  const at = Date.parse(answer.headers.get('date') ?? '')
  // The header has whole seconds: a small difference means nothing.
  const off = at + 500 - (sentAt + Date.now()) / 2
  if (!Number.isNaN(at)) behindMs = Math.abs(off) < 2_000 ? 0 : off
}

/** The person this page was opened for. Every call names them, and the server refuses it if the session belongs to another person. */
let person: string | null = null
type SessionState = {
  readonly isOut: boolean
  /** The name of another person who is signed in with this browser now. */
  readonly other: string | null
  /** Whether a call was refused because the sign-in on this remembered device is not fresh. */
  readonly isProofNeeded: boolean
}
const state = createStore<SessionState>({ isOut: false, other: null, isProofNeeded: false })
const PERSON_HEADER = 'countersign-person'

/** All tabs of this browser share one cookie, so each tab announces which person it was opened for. */
const tabs = new BroadcastChannel('countersign-person')
tabs.addEventListener('message', ({ data }: MessageEvent<{ readonly id: string; readonly name: string }>) => {
  if (person !== null) session.become(data.id === person ? null : data.name)
  if (session.isOut()) void lookForSession().catch(() => undefined)
  else if (data.id === person) session.needProof(false)
})

export const session = {
  isOut: (): boolean => state.get().isOut,
  use: (): SessionState => state.use(),
  become(other: string | null): void {
    if (state.get().other !== other) state.set({ ...state.get(), other })
  },
  needProof(isProofNeeded: boolean): void {
    if (state.get().isProofNeeded !== isProofNeeded) state.set({ ...state.get(), isProofNeeded })
  },
  /** Called after a sign-in on this page. */
  entered(): void {
    session.needProof(false)
    session.set(false)
    void queries.invalidateQueries()
  },
  /** Tells the other tabs which person this tab is for. */
  announce: (me: { readonly id: string; readonly name: string | null }): void => tabs.postMessage({ id: me.id, name: me.name ?? me.id }),
  set(isOut: boolean): void {
    if (session.isOut() !== isOut) state.set({ ...state.get(), isOut })
  },
}

/** Set on `pagehide`, which fires before the page counts as hidden. */
let isLeaving = false
addEventListener('pagehide', () => {
  isLeaving = true
  setTimeout(() => (isLeaving = false)) // a page that returns, or never left, continues as before
})
const isGoing = (): boolean => isLeaving || document.visibilityState === 'hidden'

async function send(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  const sentAt = Date.now()
  // The browser must not abort a request that is sent while the page unloads.
  const answer = await fetch(input, init.method === 'POST' && isGoing() ? { ...init, keepalive: true } : init)
  noteTime(answer, sentAt)
  person ??= answer.headers.get(PERSON_HEADER)
  if (answer.status === 401) session.set(true)
  if (answer.status === 403) {
    type Refused = { readonly error?: { readonly code: string; readonly details: { readonly name?: string } } }
    const { error } = (await answer
      .clone()
      .json()
      .catch(() => ({}))) as Refused
    if (error?.code === 'PROOF_REQUIRED') session.needProof(true)
    if (error?.code === 'OTHER_PERSON') session.become(error.details.name ?? 'another person')
  }
  return answer
}

const inPersonsName = (): Record<string, string> => (person === null ? {} : { [PERSON_HEADER]: person })

/** Checks whether the user has signed in from another tab. */
export async function lookForSession(): Promise<void> {
  await call('identity/me.get', {})
  session.entered()
}

/** Signs in or requests a link; throws the server's message on refusal. */
export async function postSignIn(way: 'key' | 'mail', fields: object): Promise<void> {
  const headers = { 'content-type': 'application/json', ...inPersonsName() }
  const answer = await fetch(`/login/${way}`, { method: 'POST', headers, body: JSON.stringify(fields) }).catch(() => null)
  if (answer === null) throw new CountersignError({ code: 'NETWORK', status: null, message: 'no answer came', retryable: true })
  if (answer.ok) return
  const { error } = (await answer.json()) as { error: { code: string; message: string } }
  const message = answer.status === 401 ? 'this key is not valid here: it may have been revoked, or is not whole' : error.message
  // No status: a 401 would mean "signed out", which this page already shows.
  throw new CountersignError({ code: error.code, status: null, message, retryable: false })
}
/** How people sign in here. */
export type SignInWays = {
  readonly mail: boolean
  /** Login links and typed keys. */
  readonly links: boolean
  /** The host of the issuer, or null. */
  readonly issuer: string | null
  /** For how many days a device can be remembered; null: it cannot be. */
  readonly remember_days: number | null
}
export const signInWays = async (): Promise<SignInWays> => (await (await fetch('/login/ways')).json()) as SignInWays

/** The path that begins a sign-in at the issuer. If the page belongs to a person, the sign-in is for that person. */
export function issuerPath({ fresh, remember }: { readonly fresh: boolean; readonly remember: boolean }): string {
  const fields = { next: location.pathname, ...(fresh ? { fresh: '1' } : {}), ...(remember ? { remember: '1' } : {}) }
  return `/login/oidc?${new URLSearchParams({ ...fields, ...(person === null ? {} : { person }) })}`
}

export const client: Client = createClient({
  url: location.origin,
  attempts: 3,
  timeoutMs: 15_000,
  // The browser's cookie opens a socket too, and six tabs with a connection for each stream would block all others.
  streams: 'socket',
  fetch: send,
  headers: inPersonsName,
})

/**
 * A call by its full name. A person is waiting, so it fails early and leaves the retry to them. If a policy wants their signature, their
 * device asks for it.
 */
export async function call<N extends CallName>(name: N, input: Input<N>): Promise<Output<N>> {
  try {
    return await client.call(name, input)
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'PASSKEY_REQUIRED') throw error
    return client.call(name, { ...input, assertion: await signatureOver(client, name, input) })
  }
}

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (failures, error) => failures < 1 && error instanceof CountersignError && error.retryable,
      staleTime: 10_000,
      networkMode: 'always', // fail with an error instead of pausing silently while offline
      refetchOnWindowFocus: true,
    },
    mutations: { networkMode: 'always' }, // never queue a change and send it later, when the user has left
  },
})

/** Every item of an inherently short list, such as the people of an installation. */
export async function all<T>(
  list: (cursor: string | undefined) => Promise<{ items: readonly T[]; next_cursor: string | null }>,
): Promise<T[]> {
  const found: T[] = []
  let cursor: string | undefined
  for (let pages = 0; pages < 20; pages++) {
    const page = await list(cursor)
    found.push(...page.items)
    if (page.next_cursor === null) break
    cursor = page.next_cursor
  }
  return found
}
export const after = (cursor: string | undefined): { cursor?: string } => (cursor === undefined ? {} : { cursor })
