// Starts an OpenID Connect provider, and a person's browser without a screen: it keeps cookies, follows what pages say, and fills in forms.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { exportJWK, generateKeyPair } from 'jose'

export const CLIENT_ID = 'countersign'
export const CLIENT_SECRET = 'a secret of the test'

export type ProviderProcess = {
  readonly url: string
  readonly port: number
  said(): string
  stop(): Promise<void>
}

export async function keyNamed(kid: string, alg = 'RS256'): Promise<object> {
  const { privateKey } = await generateKeyPair(alg, { extractable: true })
  return { ...(await exportJWK(privateKey)), kid, alg, use: 'sig' }
}

type Options = { readonly port: number; readonly app: string; readonly keys?: object[]; readonly client?: object; readonly more?: object }

/** `app`: the address of the server that people sign in to. */
export async function startProvider({ port, app, keys, client = {}, more = {} }: Options): Promise<ProviderProcess> {
  const child: ChildProcess = spawn(process.execPath, [join(import.meta.dirname, 'provider-process.ts')], {
    env: { PATH: process.env['PATH'], NODE_ENV: 'test' },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let said = ''
  child.stderr!.on('data', (part) => (said = (said + String(part)).slice(-20_000)))
  const registered = {
    client_id: CLIENT_ID,
    client_secret: CLIENT_SECRET,
    redirect_uris: [`${app}/login/oidc/callback`],
    post_logout_redirect_uris: [`${app}/`],
    grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
    backchannel_logout_uri: `${app}/login/oidc/backchannel`,
    backchannel_logout_session_required: true,
    ...client,
  }
  child.stdin!.end(JSON.stringify({ port, keys: keys ?? [await keyNamed('one')], clients: [registered], more }))
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGTERM')
    await gone
  }
  const ready = once(child.stdout!, 'data')
  const ended = once(child, 'exit').then(() => Promise.reject(new Error(`the provider ended: ${said}`)))
  ended.catch(() => undefined)
  await Promise.race([ready, ended])
  return { url: `http://127.0.0.1:${port}`, port, said: () => said, stop }
}

export type Seen = { readonly url: string; readonly status: number; readonly headers: Headers; readonly text: string }

/** A browser without a screen. Both servers have the same host, so their cookies are kept by port. */
export function createVisitor() {
  const jars = new Map<string, Map<string, string>>()
  const jarOf = (url: string): Map<string, string> => {
    const { host } = new URL(url)
    return jars.get(host) ?? jars.set(host, new Map()).get(host)!
  }

  async function visit(url: string, init: RequestInit = {}): Promise<Seen> {
    const jar = jarOf(url)
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const headers = { ...(cookie === '' ? {} : { cookie }), ...(init.headers as Record<string, string>) }
    const answer = await fetch(url, { ...init, redirect: 'manual', headers })
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
      if (value === '' || /max-age=0/i.test(line)) jar.delete(name!)
      else jar.set(name!, value!)
    }
    return { url, status: answer.status, headers: answer.headers, text: await answer.text() }
  }

  const locationOf = ({ url, headers, text }: Seen): string | null => {
    const to = headers.get('location') ?? /http-equiv="refresh" content="0;url=([^"]*)"/.exec(text)?.[1]?.replaceAll('&amp;', '&')
    return to === undefined ? null : new URL(to, url).href
  }

  /** Follows redirects until a page comes, or an address that `until` names. */
  async function follow(seen: Seen, until: (url: string) => boolean = () => false): Promise<Seen> {
    for (let at = seen; ;) {
      const to = locationOf(at)
      if (to === null || until(to)) return at
      at = await visit(to)
    }
  }

  const post = (url: string, fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Seen> =>
    visit(url, {
      method: 'POST',
      body: new URLSearchParams(fields).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    })

  const formIn = ({ url, text }: Seen): { action: string; fields: Record<string, string> } => {
    const action = /<form[^>]*action="([^"]*)"/.exec(text)?.[1] ?? url
    const inputs = [...text.matchAll(/<input[^>]*type="hidden"[^>]*>/g)].map(([tag]) => tag)
    const valueOf = (tag: string, name: string): string => new RegExp(`${name}="([^"]*)"`).exec(tag)?.[1] ?? ''
    return {
      action: new URL(action.replaceAll('&amp;', '&'), url).href,
      fields: Object.fromEntries(inputs.map((tag) => [valueOf(tag, 'name'), valueOf(tag, 'value')])),
    }
  }

  return {
    visit,
    post,
    follow,
    formIn,
    locationOf,
    cookies: (url: string): Map<string, string> => jarOf(url),
    /** Signs in on the pages of the provider, up to the address that leads back. */
    async signInAs(name: string, seen: Seen, until: (url: string) => boolean): Promise<string> {
      let at = await follow(seen, until)
      for (let pages = 0; pages < 4 && locationOf(at) === null; pages++) {
        const { action, fields } = formIn(at)
        const isLogin = at.text.includes('name="login"')
        at = await follow(await post(action, { ...fields, ...(isLogin ? { login: name, password: 'any' } : {}) }), until)
      }
      const to = locationOf(at)
      if (to === null) throw new Error(`the provider did not lead back: ${at.status} ${at.url} ${at.text.slice(0, 2_000)}`)
      return to
    },
  }
}
