// An OpenID Connect provider as a process of its own: `oidc-provider`, with its own pages for signing in. Any name is an account.
import { readFileSync } from 'node:fs'
// @ts-expect-error -- the package has no types
import Provider from 'oidc-provider'

const { port, keys, clients, more } = JSON.parse(readFileSync(0, 'utf8')) as {
  port: number
  keys: object[]
  clients: object[]
  more: object
}
const groupsOf = (id: string): string[] =>
  id === 'crowd' ? Array.from({ length: 10_000 }, (_, i) => `g${i}`) : id === 'nobody' ? [] : ['engineering', `of-${id}`]

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients,
  jwks: { keys },
  cookies: { keys: ['one'] },
  claims: { openid: ['sub', 'groups'], profile: ['name'] },
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256'] },
  features: {
    devInteractions: { enabled: true },
    backchannelLogout: { enabled: true },
    rpInitiatedLogout: { enabled: true },
    deviceFlow: { enabled: true },
  },
  findAccount: (_: unknown, id: string) => ({
    accountId: id,
    claims: () => ({ sub: id, name: `${id[0]!.toUpperCase()}${id.slice(1)} of the company`, groups: groupsOf(id) }),
  }),
  // Its own guard keeps it from calling this machine, where the server of the test is.
  fetch: (url: string, { dispatcher: _, ...options }: RequestInit & { dispatcher?: unknown }) => fetch(url, options),
  ...more,
})
provider.on('server_error', (_: unknown, error: Error) => process.stderr.write(`${error.stack}\n`))
provider.on('backchannel.error', (_: unknown, error: Error) => process.stderr.write(`${error.stack}\n`))
provider.listen(port, '127.0.0.1', () => process.stdout.write('ready\n'))
process.on('SIGTERM', () => process.exit(0))
