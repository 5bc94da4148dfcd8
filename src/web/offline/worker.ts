// The service worker: it caches the shell's hashed files, so that the page opens offline and says so. It answers an item only when the
// user presses a button of a notification, and only for the person the notification was sent to.
import { sendAnswer, noticeOf, type Pushed } from './push.ts'

declare const __PAGE_VERSION__: string

type Waits = { waitUntil(work: Promise<unknown>): void }
type Fetches = Waits & { readonly request: Request; respondWith(answer: Promise<Response>): void }
type Clicked = Waits & {
  readonly action: string
  readonly notification: { readonly data: ReturnType<typeof noticeOf>; close(): void }
}
type Worker = {
  readonly location: Location
  readonly clients: { claim(): Promise<void>; openWindow(path: string): Promise<unknown> }
  readonly registration: { showNotification(title: string, options: object): Promise<void> }
  addEventListener(kind: 'install' | 'activate', listener: (event: Waits) => void): void
  addEventListener(kind: 'fetch', listener: (event: Fetches) => void): void
  addEventListener(kind: 'push', listener: (event: Waits & { readonly data: { json(): Pushed } | null }) => void): void
  addEventListener(kind: 'notificationclick', listener: (event: Clicked) => void): void
}
const worker = globalThis as unknown as Worker
const CACHE = `page-${__PAGE_VERSION__}`
const SHELL = '/inbox'

worker.addEventListener('install', (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.add(SHELL)))
})

worker.addEventListener('activate', (event) => {
  const old = async (): Promise<void> => {
    const names = await caches.keys()
    await Promise.all(names.filter((name) => name.startsWith('page-') && name !== CACHE).map((name) => caches.delete(name)))
    await worker.clients.claim()
  }
  event.waitUntil(old())
})

async function cachedResponse(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE)
  const known = await cache.match(request)
  if (known) return known
  const answer = await fetch(request)
  if (answer.ok) await cache.put(request, answer.clone())
  return answer
}

/** The newest shell, or the cached one if the server is unreachable. */
async function shell(request: Request): Promise<Response> {
  try {
    return await fetch(request)
  } catch (error) {
    const shell = await (await caches.open(CACHE)).match(SHELL)
    if (shell) return shell
    throw error
  }
}

const page = /^\/(?:|(?:inbox|tasks|reviews|settings)(?:\/[^/]+)?|agents|grants|record(?:\/why\/[^/]+)?|insight|projects)$/
worker.addEventListener('fetch', (event) => {
  const { request } = event
  const { origin, pathname } = new URL(request.url)
  if (request.method !== 'GET' || origin !== worker.location.origin) return
  if (pathname.startsWith('/assets/')) event.respondWith(cachedResponse(request))
  else if (request.mode === 'navigate' && page.test(pathname)) event.respondWith(shell(request))
})

worker.addEventListener('push', (event) => {
  const notice = noticeOf(event.data?.json() ?? {})
  const actions =
    notice.answer === null
      ? []
      : [
          { action: 'approved', title: 'Approve' },
          { action: 'rejected', title: 'Reject' },
        ]
  event.waitUntil(
    worker.registration.showNotification(notice.title, {
      body: notice.body,
      tag: notice.path,
      icon: '/icon-192.png',
      data: notice,
      actions,
    }),
  )
})

worker.addEventListener('notificationclick', (event) => {
  const { notification, action } = event
  const { answer, path } = notification.data
  notification.close()
  const act = async (): Promise<void> => {
    const isAnswer = answer !== null && (action === 'approved' || action === 'rejected')
    if (!isAnswer || !(await sendAnswer(answer, action))) await worker.clients.openWindow(path)
  }
  event.waitUntil(act())
})
