// A stage for the page: a server of its own with people and agents, and signed-in browsers. The stage records violations of the page's
// content security policy and uncaught errors; a test with any of them fails.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { buildWeb } from '../../../scripts/web.ts'
import { createCaller, startServer, type ServerProcess } from '../as-processes/server.ts'
import { openBrowser } from './chromium.ts'

export const people = { maya: 'Maya Lindqvist', tom: 'Tom Okafor', ines: 'Ines Duarte' } as const
export const agents = { deployer: 'Deployer', robin: 'Robin', scribe: 'Scribe', planner: 'Planner' } as const
export type Person = keyof typeof people
export type AgentName = keyof typeof agents

export type Stage = {
  readonly url: string
  readonly browser: Browser
  readonly server: () => ServerProcess
  keyOf(as: Person | AgentName | 'admin'): string
  /** Calls as a person, an agent or `admin`; throws on refusal. */
  call(as: Person | AgentName | 'admin', operation: string, input?: object): Promise<any>
  ask(as: AgentName, payload: object, more?: object): Promise<any>
  link(person: Person, next?: string): Promise<string>
  /** Opens a page for a signed-in person, in a separate browser context. */
  open(person: Person, path?: string, options?: BrowserContextOptions): Promise<Page>
  restart(): Promise<void>
  /** Unexpected events on any page, such as errors. */
  amiss(): string[]
  /** Closes the pages of a test, which would otherwise follow the next test's events, and returns their unexpected events. */
  tidy(): Promise<string[]>
  close(): Promise<void>
}

export async function openStage(kind: 'shell' | 'whole' = 'shell'): Promise<Stage> {
  await buildWeb()
  const data = mkdtempSync(join(tmpdir(), 'web-'))
  let server = await startServer(data)
  const { port } = server
  const url = `http://127.0.0.1:${port}`
  let caller = createCaller(port)
  const browser = await openBrowser(kind)
  const keys: Record<string, string> = { admin: server.adminKey }
  const contexts: BrowserContext[] = []
  const amiss: string[] = []

  async function call(as: string, operation: string, input: object = {}): Promise<any> {
    const { status, body } = await caller.call(keys[as]!, operation, input)
    if (status !== 200) throw new Error(`${operation} answered ${status}: ${JSON.stringify(body)}`)
    return body
  }
  for (const [id, name] of Object.entries(people)) {
    await call('admin', 'identity/user.add', { id: `user_${id}`, name, ...(id === 'maya' ? { role: 'owner' } : {}) })
    keys[id] = (await call('admin', 'identity/key.issue', { subject: `user_${id}` })).key
  }
  await call('admin', 'identity/project.join', { project_id: 'project_default', subject: 'user_maya', role: 'owner' }).catch(
    () => undefined,
  )
  for (const [id, name] of Object.entries(agents)) {
    await call('admin', 'identity/agent.add', { id: `agent_${id}`, name, owner: id === 'scribe' ? 'user_tom' : 'user_maya' })
    keys[id] = (await call('admin', 'identity/key.issue', { subject: `agent_${id}` })).key
  }

  const link = async (person: Person, next?: string): Promise<string> => {
    const { token } = await call('admin', 'identity/login.issue', { user_id: `user_${person}` })
    return `${url}/login?token=${token}${next === undefined ? '' : `&next=${encodeURIComponent(next)}`}`
  }

  const leave = async (): Promise<void> => {
    await Promise.all(contexts.splice(0).map((context) => context.close().catch(() => undefined)))
  }

  function watch(page: Page): void {
    page.on('pageerror', (error) => amiss.push(`the page threw: ${error.message}`))
    page.on('console', (message) => {
      const text = message.text()
      if (/Content.Security.Policy|Trusted(?:HTML|Script)|violates/i.test(text)) amiss.push(`the policy was violated: ${text}`)
      else if (message.type() === 'error' && !/Failed to load resource|WebSocket|ERR_/.test(text)) amiss.push(`the console says: ${text}`)
    })
  }

  return {
    url,
    browser,
    server: () => server,
    keyOf: (as) => keys[as]!,
    call,
    ask: async (as, payload, more = {}) =>
      (await call(as, 'execution/request.create', { action: 'APPROVE', payload: { details: {}, ...payload }, ...more })).request,
    link,
    async open(person, path = '/inbox', options = {}) {
      const context = await browser.newContext({
        viewport: { width: 1440, height: 900 },
        locale: 'en-GB',
        reducedMotion: 'reduce',
        ...options,
      })
      contexts.push(context)
      const page = await context.newPage()
      page.setDefaultTimeout(30_000) // a busy machine is slow, and a test that waits in vain fails all the same
      watch(page)
      await page.goto(await link(person, path))
      return page
    },
    async restart() {
      await server.end('SIGTERM')
      caller.close()
      server = await startServer(data, port)
      caller = createCaller(port)
    },
    amiss: () => amiss.splice(0),
    async tidy() {
      await leave()
      return amiss.splice(0)
    },
    async close() {
      await leave()
      await browser.close()
      caller.close()
      await server.end('SIGTERM')
      rmSync(data, { recursive: true, force: true })
    },
  }
}
