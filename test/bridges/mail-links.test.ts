// Links in mails, on a real server with a real SMTP receiver: looking at one changes nothing, the button does, and only once.
import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { SMTPServer } from 'smtp-server'
import { createLog } from '#apps/server/log.ts'
import { startServer } from '#apps/server/server.ts'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { transportFailure } from '#bindings/http/responses.ts'
import { networkOf } from '#apps/server/identity/ration.ts'
import { mailLinks } from '#bridges/mail-links/index.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { temporary } from '../support/as-processes/cli.ts'
import { until } from '../support/over-sockets/receiver.ts'

test('the link of a mail confirms an address with a button, and another one stops the mails', async (t) => {
  const mails: string[] = []
  const office = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    logger: false,
    onData(stream, _, done) {
      const parts: Buffer[] = []
      stream.on('data', (part: Buffer) => parts.push(part))
      stream.on('end', () => {
        mails.push(Buffer.concat(parts).toString().replaceAll('=\r\n', '').replaceAll('=3D', '='))
        done()
      })
    },
  })
  await new Promise<void>((listening) => office.listen(0, '127.0.0.1', () => listening()))
  t.after(() => new Promise<void>((closed) => office.close(() => closed())))
  const home = temporary('mail-links')
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const smtp = `smtp://127.0.0.1:${(office.server.address() as AddressInfo).port}`
  const args = ['--data', join(home, 'data'), '--port', '0', '--log', 'silent', '--smtp', smtp, '--socket', 'off', '--dev']
  const { config } = readConfig(args, {}) as { config: Config }
  const server = await startServer(config, { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) })
  t.after(() => server.stop())
  const link = await server.ownerLink()
  const signedIn = await fetch(link!, { redirect: 'manual' })
  const cookie = signedIn.headers.get('set-cookie')!.split(';', 1)[0]!
  const call = async (operation: string, input: object): Promise<any> => {
    const headers = { 'content-type': 'application/json', cookie, origin: server.url }
    return (await fetch(`${server.url}/v1/${operation}`, { method: 'POST', headers, body: JSON.stringify(input) })).json()
  }
  const isConfirmed = async (): Promise<unknown> => (await call('execution/channel.list', {})).items[0]?.confirmed
  await call('execution/channel.add', { kind: 'email', address: 'owner@example.com' })
  await until(() => mails.length === 1)
  const confirm = /http:\S+\/mail\/confirm\?token=\S+/.exec(mails[0]!)![0]
  const page = await fetch(confirm)
  assert.equal(page.status, 200)
  assert.match(page.headers.get('content-security-policy')!, /default-src 'none'/)
  assert.match(await page.text(), /<form method="post"><button>Confirm<\/button>/)
  assert.equal(await isConfirmed(), false, 'a program that opens links confirms nothing')
  assert.equal((await fetch(`${confirm}x`, { method: 'POST' })).status, 404)
  assert.equal((await fetch(confirm, { method: 'POST' })).status, 200)
  assert.equal(await isConfirmed(), true)

  // A link to sign in: the same answer for every address, and a mail to a confirmed one alone.
  const before = mails.length
  const ask = async (fields: object, headers: Record<string, string> = { origin: server.url }): Promise<readonly [number, string]> => {
    const sent = { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(fields) }
    const answer = await fetch(`${server.url}/login/mail`, sent)
    return [answer.status, await answer.text()]
  }
  const known = await ask({ address: 'Owner@Example.com', next: '/inbox/hxp_1' })
  assert.deepEqual([known, await ask({ address: 'nobody@example.com' })], [known, known])
  assert.equal(known[0], 202)
  assert.equal((await ask({ address: 'no address' }))[0], 400)
  assert.equal((await ask({ address: 'owner@example.com' }, {}))[0], 403)
  assert.equal((await ask({ address: 'owner@example.com' }, { origin: 'https://evil.example' }))[0], 403)
  await until(() => mails.length === before + 1)
  const mailed = /http:\S+\/login\?token=\S+/.exec(mails.at(-1)!)![0]
  assert.match(mailed, /&ask=1&next=\/inbox\/hxp_1$/)
  const asking = await fetch(mailed, { redirect: 'manual' })
  assert.deepEqual([asking.status, asking.headers.get('set-cookie')], [200, null], 'a program that opens links signs nobody in')
  const form = {
    method: 'POST',
    redirect: 'manual',
    headers: { origin: server.url },
    body: new URLSearchParams({ remember: 'on' }),
  } as const
  const entered = await fetch(mailed, form)
  assert.deepEqual([entered.status, entered.headers.get('location')], [303, '/inbox/hxp_1'])
  assert.match(entered.headers.get('set-cookie')!, /Max-Age=(?:25919\d\d|2592000);/)
  assert.equal((await fetch(mailed, form)).status, 401, 'a link works once')
  // Three links for a person, ten for an address of the network.
  const many = []
  for (let i = 0; i < 10; i++) many.push((await ask({ address: 'owner@example.com' }))[0])
  assert.deepEqual([...new Set(many)], [202, 429])
  await until(() => mails.length === before + 3)
  const confirmations = async (): Promise<number> =>
    (await call('collaboration/audit.query', { project_id: 'system', action: 'channel.confirmed' })).items.length
  assert.equal(await confirmations(), 1)
  assert.equal((await fetch(confirm, { method: 'POST' })).status, 200, 'who presses it again is told the same')
  assert.equal(await confirmations(), 1, 'and nothing is recorded twice')
  const { items } = await call('execution/channel.list', {})
  await call('execution/channel.test', { channel_id: items[0].id })
  await until(() => mails.length === before + 4)
  const stop = /http:\S+\/mail\/stop\?token=\S+/.exec(mails.at(-1)!)![0].replace(/>$/, '')
  assert.equal((await fetch(stop, { method: 'POST', body: 'List-Unsubscribe=One-Click' })).status, 200)
  assert.deepEqual((await call('execution/channel.list', {})).items, [])
  assert.equal((await fetch(stop, { method: 'POST' })).status, 404)
  assert.equal((await fetch(`${server.url}/mail/other`)).status, 404)
})

test('a server that cannot do it now says so, and not that the link is over', async () => {
  const said: { status: number; text: string }[] = []
  const bridge = mailLinks()({
    kernel: { call: () => Promise.reject(new Refusal('UNAVAILABLE', 'the database cannot be reached')) },
    headersFor: () => [],
    refusalOf: () => null,
    failed: () => transportFailure(503, 'UNAVAILABLE', 'the database cannot be reached', { 'retry-after': '1' }),
    bug: (error: unknown) => assert.fail(String(error)),
  } as unknown as Parameters<ReturnType<typeof mailLinks>>[0])
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const response = {
    writeHead: (status: number) => ({ end: (text: string) => end(void said.push({ status, text })) }),
    destroy: () => end(),
  }
  const request = { url: '/mail/stop?token=chn_1.x', method: 'POST', resume: () => undefined }
  bridge.answer(request as unknown as IncomingMessage, response as unknown as ServerResponse)
  await ended
  const [page] = said as [{ status: number; text: string }]
  assert.equal(page.status, 503)
  assert.match(page.text, /Try again later/)
})

/** A ration with every address that it is for, however it is spelled. */
const networks: readonly (readonly [string, readonly string[]])[] = [
  ['192.0.2.7', ['192.0.2.7', '::ffff:192.0.2.7', '::FFFF:192.0.2.7']],
  ['2001:db8:1:2::/64', ['2001:db8:1:2::1', '2001:0DB8:0001:0002:ffff::', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2:3:4:192.0.2.7']],
  ['2001:db8:0:0::/64', ['2001:db8::1', '2001:db8:0:0:1::']],
  ['0:0:0:0::/64', ['::1', '::']],
  ['fe80:0:0:0::/64', ['fe80::1%eth0', 'fe80::2']],
  ['unknown', ['unknown']],
  ['', ['']],
]

for (const [network, addresses] of networks)
  test(`${addresses.join(', ')} share the ration of ${network === '' ? 'no address' : network}`, () => {
    assert.deepEqual([...new Set(addresses.map(networkOf))], [network])
  })
