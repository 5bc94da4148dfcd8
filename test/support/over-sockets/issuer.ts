// An OpenID Connect issuer over real HTTP: keys that rotate, tokens of every kind, and a server that can be told to misbehave.
import { exportJWK, generateKeyPair, SignJWT, type JWK } from 'jose'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'

export type Pair = Awaited<ReturnType<typeof generateKeyPair>> & { readonly kid: string; readonly alg: string }

export async function pairOf(kid: string, alg = 'ES256'): Promise<Pair> {
  return { ...(await generateKeyPair(alg, { extractable: true })), kid, alg }
}

export type TestIssuer = {
  readonly url: string
  readonly jwks: string
  /** Paths that were asked for. */
  readonly asked: string[]
  /** The keys that it shows at present. */
  pairs: Pair[]
  /** In place of its own answers. */
  instead: RequestListener | null
  /** A good token of the first key, unless something is said otherwise. */
  token(claims?: Record<string, unknown>, header?: Record<string, unknown>, pair?: Pair): Promise<string>
  stop(): void
}

export const AUDIENCE = 'countersign-test'

export async function startIssuer(t: TestContext, nowMs: () => number = Date.now): Promise<TestIssuer> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url!)
    if (issuer.instead) return issuer.instead(request, response)
    void answerTo(request.url!).then((body) => {
      response.writeHead(body === null ? 404 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
  })
  async function answerTo(path: string): Promise<object | null> {
    if (path === '/.well-known/openid-configuration') return { issuer: issuer.url, jwks_uri: issuer.jwks }
    if (path !== '/keys') return null
    const shown = async ({ publicKey, kid, alg }: Pair): Promise<JWK> => ({ ...(await exportJWK(publicKey)), kid, alg, use: 'sig' })
    return { keys: await Promise.all(issuer.pairs.map(shown)) }
  }
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const stop = (): void => {
    server.closeAllConnections()
    server.close()
  }
  t.after(stop)
  const issuer: TestIssuer = {
    url,
    jwks: `${url}/keys`,
    asked,
    pairs: [await pairOf('one')],
    instead: null,
    token(claims = {}, header = {}, pair = issuer.pairs[0]!) {
      const now = Math.floor(nowMs() / 1_000)
      const all = { iss: url, aud: AUDIENCE, sub: 'alice-7', iat: now, exp: now + 300, ...claims }
      const said = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
      return new SignJWT(said).setProtectedHeader({ alg: pair.alg, kid: pair.kid, ...header }).sign(pair.privateKey)
    },
    stop,
  }
  return issuer
}
