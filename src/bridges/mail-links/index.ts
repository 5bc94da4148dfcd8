// Links in our own mails: a page with one button, and what the button does. The link is the right to that one action.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { SYSTEM } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { buttonPage, pageHeaders, wordsPage } from '#bindings/http/browser/pages.ts'
import type { Bridge, BridgeHost, MakeBridge } from '#bindings/http/mount.ts'
import { statuses } from '#kernel/declare/errors.ts'

const PATH = '/mail'
const purposes = {
  [`${PATH}/confirm`]: {
    operation: 'execution/channel.confirm',
    title: 'Confirm this address',
    message: 'You will get notifications at this address.',
    button: 'Confirm',
    done: 'The address is confirmed.',
  },
  [`${PATH}/stop`]: {
    operation: 'execution/channel.stop',
    title: 'Stop these mails',
    message: 'Nothing more will be sent to this address.',
    button: 'Stop',
    done: 'Nothing more will be sent to this address.',
  },
} as const
const AGAIN = 'The server cannot do this right now. Try again later.'
const BAD = 'This link no longer works. It may be incomplete, or its target was removed.'

export function mailLinks(): MakeBridge {
  return (host): Bridge => ({
    path: PATH,
    answer(request, response) {
      request.resume()
      void answerLink(host, request, response).catch((error: unknown) => {
        host.bug(error)
        response.destroy()
      })
    },
    isSocket: () => false,
    upgrade: (_, socket) => socket.destroy(),
    stop: () => undefined,
  })
}

async function answerLink(host: BridgeHost, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://localhost')
  const purpose = purposes[url.pathname as keyof typeof purposes]
  const say = (status: number, text: string): void => {
    const shared = host.headersFor(request)
    const pageFields = Object.entries({ ...pageHeaders, 'cache-control': 'no-store' })
    const fieldNames = new Set(pageFields.map(([name]) => name.toLowerCase()))
    const rest = shared.flatMap((name, i) => (i % 2 === 0 && !fieldNames.has(name.toLowerCase()) ? [name, shared[i + 1]!] : []))
    response.writeHead(status, [...rest, ...pageFields.flat()]).end(request.method === 'HEAD' ? '' : text)
  }
  const refused = host.refusalOf(request)
  if (refused !== null) return say(refused.status, wordsPage('Not possible', refused.message))
  if (purpose === undefined) return say(404, wordsPage('Not found', BAD))
  const token = url.searchParams.get('token') ?? ''
  if (request.method === 'GET' || request.method === 'HEAD') return say(200, buttonPage(purpose.title, purpose.message, purpose.button))
  if (request.method !== 'POST') return say(405, wordsPage('Not possible', 'Open the link with a browser.'))
  try {
    await host.kernel.call(purpose.operation, { token }, SYSTEM)
    say(200, wordsPage(purpose.title, purpose.done))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { status } = host.failed(error, url.pathname)
    // A temporary refusal says nothing about the link, so the person can press the button again.
    if (status === statuses.busy || status === statuses.quota) return say(status, wordsPage('Not possible now', AGAIN))
    say(404, wordsPage('This link does not work', BAD))
  }
}
