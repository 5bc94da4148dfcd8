// `/mcp` of a server with an issuer: metadata by RFC 9728, the challenge, and tokens by their audience.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startIssuer } from '../support/over-sockets/issuer.ts'
import { openMcpWorld } from './mcp-world.ts'

test('A server with an issuer names it, and takes a token for /mcp at /mcp alone', async (t) => {
  const issuer = await startIssuer(t)
  const world = await openMcpWorld(t, ['--issuer', issuer.url, '--audience', 'countersign'])
  await world.call(world.keys.owner, 'identity/subject.link', { user_id: 'user_alice', issuer: issuer.url, sub: 'alice' })
  const metadata = await (await fetch(`${world.url}/.well-known/oauth-protected-resource/mcp`)).json()
  const resource = `${world.url}/mcp`
  assert.deepEqual(metadata, {
    resource,
    resource_name: 'Countersign',
    authorization_servers: [issuer.url],
    bearer_methods_supported: ['header'],
  })
  const ask = async (path: string, aud: string | null): Promise<Response> =>
    fetch(`${world.url}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(aud === null ? {} : { authorization: `Bearer ${await issuer.token({ aud, sub: 'alice' })}` }),
      },
      body: path === '/mcp' ? JSON.stringify(initialize) : '{}',
    })
  const refused = await ask('/mcp', null)
  assert.deepEqual(
    [refused.status, refused.headers.get('www-authenticate')],
    [401, `Bearer realm="countersign", resource_metadata="${world.url}/.well-known/oauth-protected-resource/mcp"`],
  )
  const statuses = async (path: string): Promise<number[]> => {
    const found: number[] = []
    for (const aud of [resource, 'countersign', 'another', `${world.url}/gate/x/mcp`]) found.push((await ask(path, aud)).status)
    return found
  }
  for (const _ of [1, 2]) {
    assert.deepEqual(await statuses('/mcp'), [200, 200, 401, 401])
    assert.deepEqual(await statuses('/v1/identity/me.get'), [401, 200, 401, 401])
  }
})
const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}
