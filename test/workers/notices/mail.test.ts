// E-mail through a real SMTP receiver: an address is confirmed first, a burst is one mail, and what the receiver does wrong is logged and tried again.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { realClock } from '#apps/server/clock.ts'
import { runNoticeChannel } from '#workers/notices/channel.ts'
import { mailFor, type NoticeItem } from '#workers/notices/messages.ts'
import { enrol } from '../../support/passkeys/sign.ts'
import { until } from '../../support/over-sockets/receiver.ts'
import { silent } from '../../support/in-process/worker-world.ts'
import { createWorld, type World } from '../../support/in-process/world.ts'

const ORIGIN = 'https://tasks.example.com'
type Got = { readonly to: string[]; readonly head: string; readonly text: string }

/** Soft line breaks and codes of quoted-printable, as RFC 2045 has them. */
const decoded = (text: string): string =>
  Buffer.from(
    text.replaceAll('=\r\n', '').replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  ).toString()

async function postOffice(t: TestContext, more: SMTPServerOptions = {}) {
  const got: Got[] = []
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    logger: false,
    onData(stream, session, done) {
      const parts: Buffer[] = []
      stream.on('data', (part: Buffer) => parts.push(part))
      stream.on('end', () => {
        const [head = '', ...body] = Buffer.concat(parts).toString().split('\r\n\r\n')
        got.push({ to: session.envelope.rcptTo.map(({ address }) => address), head, text: decoded(body.join('\r\n\r\n')) })
        done()
      })
    },
    ...more,
  })
  server.on('error', () => undefined)
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', () => listening()))
  t.after(() => new Promise<void>((closed) => server.close(() => closed())))
  return { url: `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`, got }
}

async function mailing(t: TestContext, smtp: string, more: { noticesPerHourMax?: number; timeoutMs?: number } = {}): Promise<World> {
  const { noticesPerHourMax = null, timeoutMs = 2_000 } = more
  const terms = {
    asksOpenMax: null,
    criticalPerHourMax: null,
    defaultSecondsMin: null,
    publicHooksOnly: true,
    mails: true,
    noticesPerHourMax,
  }
  const world = await createWorld({ now: Date.now, terms })
  const options = { allowsPrivate: true, attemptsMax: 2, random: () => 0, timeoutMs, origin: () => ORIGIN }
  const worker = runNoticeChannel(world.kernel, { ...options, mail: { smtp, from: 'countersign@example.com' } }, realClock, silent)
  t.after(worker.stop)
  return world
}
const ask = async (world: World, item: string, more: object = {}): Promise<string> =>
  (await world.call('devin', 'execution/request.create', { action: 'APPROVE', payload: { item, details: { iban: 'DE89' } }, ...more }))
    .request.id
const tokenIn = ({ text }: Got, purpose: string): string => new RegExp(`${ORIGIN}/mail/${purpose}\\?token=(\\S+)`).exec(text)![1]!
const add = (world: World, more: object = {}): Promise<any> =>
  world.call('alice', 'execution/channel.add', { kind: 'email', address: 'alice@example.com', ...more })

async function confirmed(t: TestContext, world: World, got: Got[], more: object = {}): Promise<any> {
  const { channel } = await add(world, more)
  await until(() => got.length === 1)
  await world.call('system', 'execution/channel.confirm', { token: tokenIn(got[0]!, 'confirm') })
  t.diagnostic(channel.id)
  return channel
}

test('nothing is sent to an address before its owner has followed the link, and nothing after they stopped it', async (t) => {
  const office = await postOffice(t)
  const world = await mailing(t, office.url)
  const { channel, secret } = await add(world)
  assert.deepEqual([channel.kind, channel.confirmed, secret], ['email', false, null])
  await until(() => office.got.length === 1)
  const [first] = office.got as [Got]
  assert.deepEqual(first.to, ['alice@example.com'])
  await ask(world, 'Too early', { priority: 'critical' })
  await assert.rejects(world.call('alice', 'execution/channel.test', { channel_id: channel.id }), { code: 'PRECONDITION_FAILED' })
  for (const token of ['x', `${channel.id}.x`, tokenIn(first, 'confirm').slice(0, -1)])
    await assert.rejects(world.call('system', 'execution/channel.confirm', { token }), { code: 'NOT_FOUND' })
  await world.call('system', 'execution/channel.confirm', { token: tokenIn(first, 'confirm') })
  await world.call('alice', 'execution/channel.test', { channel_id: channel.id })
  await until(() => office.got.length === 2)
  const id = await ask(world, 'Wire it <now>', { priority: 'critical' })
  await until(() => office.got.length === 3)
  const mail = office.got[2]!
  assert.match(mail.text, new RegExp(`${ORIGIN}/inbox/${id}`))
  assert.match(mail.text, /^Devin asks for your answer:/)
  assert.doesNotMatch(mail.text, /agent_devin/)
  assert.match(mail.text, /Wire it <now>/)
  assert.match(mail.head, /content-type: text\/plain/i)
  assert.match(mail.head, /List-Unsubscribe:\s+<https:\/\/tasks/)
  for (const word of ['DE89', 'iban', 'Too early']) assert.ok(!office.got.some(({ text }) => text.includes(word)), word)
  await world.call('system', 'execution/channel.stop', { token: tokenIn(mail, 'stop') })
  assert.deepEqual((await world.call('alice', 'execution/channel.list')).items, [])
  await assert.rejects(world.call('system', 'execution/channel.stop', { token: tokenIn(mail, 'stop') }), { code: 'NOT_FOUND' })
})

test('the secret behind the links of a mail is never shown: it would confirm addresses of others', async (t) => {
  const office = await postOffice(t)
  const world = await mailing(t, office.url)
  const { channel } = await add(world, { address: 'stranger@example.com' })
  await assert.rejects(world.call('alice', 'execution/channel.rotate', { channel_id: channel.id }), { code: 'PRECONDITION_FAILED' })
  await until(() => office.got.length === 1)
  await world.call('system', 'execution/channel.confirm', { token: tokenIn(office.got[0]!, 'confirm') })
  assert.equal((await world.call('alice', 'execution/channel.list')).items[0].confirmed, true, 'the link goes on working')
})

test('a burst is one mail in the order of the inbox, without items that were decided since', async (t) => {
  const office = await postOffice(t)
  const world = await mailing(t, office.url)
  await confirmed(t, world, office.got)
  const ids: string[] = []
  for (const [i, priority] of ['low', 'normal', 'high', 'high', 'normal'].entries())
    ids.push(await ask(world, `Question ${i}`, { priority }))
  await world.call('alice', 'execution/request.resolve', { request_id: ids[2], result: 'approved' })
  await until(() => office.got.length === 2)
  const { text, head } = office.got[1]!
  assert.match(head, /Subject: 4 items wait: Question 3 and 3 more/)
  for (const [i, id] of ids.entries()) assert.equal(text.includes(id), i !== 2, `question ${i}`)
  const places = [3, 1, 4, 0].map((i) => text.indexOf(ids[i]!))
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
  )
  await until(async () => (await world.call('alice', 'execution/notice.list')).items.every(({ state }: any) => state !== 'waiting'))
  const { items } = await world.call('alice', 'execution/notice.list')
  const count = (state: string): number => items.filter((one: any) => one.state === state).length
  assert.deepEqual([count('accepted'), count('dropped')], [5, 1], 'the confirmation and four questions')
  assert.equal(office.got.length, 2)
})

const message = { confirm: `${ORIGIN}/mail/confirm?token=a`, stop: `${ORIGIN}/mail/stop?token=b`, signIn: '' }
const NOW_MS = Date.UTC(2026, 0, 1, 12)
const item = (more: object): NoticeItem => ({
  event: 'created',
  requester: 'agent_deployer',
  name: 'Deployer',
  title: 'Roll back payments-api',
  priority: 'high',
  risk: 'R3',
  expires_at: '2026-01-01T12:29:30.000Z',
  link: '/inbox/hxp_1',
  ...more,
})
const mailOf = (...items: NoticeItem[]) => mailFor(items, ORIGIN, message, NOW_MS)

test('a mail about a claim holds the claim, and none of its evidence', async (t) => {
  const office = await postOffice(t)
  const world = await mailing(t, office.url)
  await confirmed(t, world, office.got)
  const payload = { claim: 'The backup was restored', evidence: [{ kind: 'text', text: '4,211 rows' }], context: 'Of last night' }
  const { request } = await world.call('devin', 'execution/request.create', { action: 'VERIFY', priority: 'critical', payload })
  await until(() => office.got.length === 2)
  const { text } = office.got[1]!
  assert.match(text, /it says: "The backup was restored"/)
  assert.match(text, new RegExp(`${ORIGIN}/inbox/${request.id}`))
  for (const word of ['4,211', 'last night']) assert.ok(!text.includes(word), word)
})

test('the subject says what waits, how risky it is, how much time is left and who asks', () => {
  const subjects: [NoticeItem, string][] = [
    [item({}), '[R3, 29 min] Roll back payments-api (Deployer)'],
    [item({ expires_at: '2026-01-01T12:00:20.000Z' }), '[R3, under 1 min] Roll back payments-api (Deployer)'],
    [item({ expires_at: '2026-01-02T11:59:00.000Z' }), '[R3, 23 h] Roll back payments-api (Deployer)'],
    [item({ expires_at: '2026-01-05T12:00:00.000Z' }), '[R3, 4 days] Roll back payments-api (Deployer)'],
    [item({ overdue: true }), '[R3, overdue] Roll back payments-api (Deployer)'],
    [item({ risk: null, expires_at: null }), 'Roll back payments-api (Deployer)'],
    [item({ name: null }), '[R3, 29 min] Roll back payments-api (agent_deployer)'],
  ]
  for (const [one, subject] of subjects) assert.equal(mailOf(one).subject, subject)
  assert.match(mailOf(item({})).text, /^ {2}answer by 2026-01-01 12:29 UTC \(29 min left\)$/m)
  const many = mailOf(item({ risk: 'R5', title: 'Delete it', expires_at: null }), item({}), item({}))
  assert.equal(many.subject, '3 items wait: [R5] Delete it and 2 more')
  assert.equal(many.text.match(/answer by/g)!.length, 2)
})

test('no text of an agent becomes a link in a mail', () => {
  const hostile = [
    'https://evil.example/login',
    'www.evil.example',
    'HTTP://a.co',
    'me@evil.xn--p1ai',
    '\u4F8B.\u516C\u53F8',
    'ftp://10.0.0.1/x',
    'evil\u3002example',
  ]
  for (const title of hostile)
    for (const { subject, text } of [mailOf(item({ title })), mailOf(item({ name: title })), mailOf(item({ title }), item({ title }))]) {
      const own = text.replaceAll(ORIGIN, '')
      for (const part of [subject, own]) {
        assert.ok(!part.includes(title), title)
        assert.doesNotMatch(part, /:\/\//, title)
        assert.doesNotMatch(part, /[\p{L}\p{N}][.\u3002]\p{L}/u, title)
      }
    }
  assert.match(mailOf(item({ title: 'See https://evil.example/login' })).subject, /See https\[:\]\/\/evil\[\.\]example\/login/)
  assert.match(mailOf(item({ title: 'Deploy v1.2.3. Then stop.' })).subject, /Deploy v1\.2\.3\. Then stop\./)
})

test('above the hourly cap only critical items are sent', async (t) => {
  const office = await postOffice(t)
  const world = await mailing(t, office.url, { noticesPerHourMax: 2 })
  await confirmed(t, world, office.got)
  await ask(world, 'Critical one', { priority: 'critical' })
  await until(() => office.got.length === 2)
  await ask(world, 'Held back')
  await until(async () => (await world.call('alice', 'execution/notice.list')).items.some(({ held }: any) => held === 'cap'))
  await ask(world, 'Critical two', { priority: 'critical' })
  await until(() => office.got.length === 3)
  assert.ok(!office.got.some(({ text, head }) => `${head}${text}`.includes('Held back') && !text.includes('Critical two')))
})

test('an SMTP server that refuses, stalls, hangs up or asks for TLS is logged in words, without the address', async (t) => {
  const refusing = await postOffice(t, {
    onRcptTo: (_, __, done) => done(Object.assign(new Error('no such user here'), { responseCode: 550 })),
  })
  const secure = await postOffice(t, { disabledCommands: [] })
  const sockets: Socket[] = []
  const stalling = createServer((socket) => void sockets.push(socket)).listen(0, '127.0.0.1')
  const closing = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await Promise.all([once(stalling, 'listening'), once(closing, 'listening')])
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    stalling.close()
    closing.close()
  })
  const at = (server: typeof stalling): string => `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`
  const cases: [string, RegExp][] = [
    [refusing.url, /refused the address \(it answered 550\)/],
    [secure.url, /no secure connection/],
    [at(stalling), /does not answer in time/],
    [at(closing), /mail server|could not be sent/],
  ]
  for (const [url, message] of cases) {
    const world = await mailing(t, url, { timeoutMs: 500 })
    await add(world)
    const tried = await until(async () =>
      (await world.call('alice', 'execution/notice.list')).items.find(({ attempts }: any) => attempts > 0),
    )
    assert.match(tried.recent[0].error, message, url)
    assert.ok(!tried.recent[0].error.includes('alice@'))
    assert.deepEqual([tried.error, tried.channel.kind, tried.title], [tried.recent[0].error, 'email', null])
  }
})

test('an address that is none, a server without mail and a flood of addresses are refused', async (t) => {
  const office = await postOffice(t)
  const world = await mailing(t, office.url)
  for (const address of ['alice', 'a@b', 'a@example.com\r\nBcc: b@example.com', '@example.com', `${'x'.repeat(70)}@example.com`])
    await assert.rejects(add(world, { address }), { code: 'INVALID_REQUEST' }, address)
  await assert.rejects(add(await createWorld()), { code: 'PRECONDITION_FAILED' })
  for (let i = 0; i < 5; i++) {
    const { channel } = await add(world, { address: `a${i}@example.com` })
    await world.call('alice', 'execution/channel.remove', { channel_id: channel.id })
  }
  await assert.rejects(add(world), { code: 'QUOTA_EXCEEDED' })
})

test('a person is told of a new passkey, and of a reset by an owner, in quiet hours too', async (t) => {
  const office = await postOffice(t)
  const world = await mailing(t, office.url)
  await confirmed(t, world, office.got, { quiet_hours: { from: '00:00', to: '23:59', zone: 'UTC' } })
  await enrol(world, 'alice')
  await enrol(world, 'bob')
  await until(() => office.got.length === 2)
  await world.call('owner', 'identity/passkey.reset', { person: 'user_alice' })
  await until(() => office.got.length === 3)
  const subjects = office.got.slice(1).map(({ head }) => /^Subject: (.*)$/m.exec(head)![1]!.trim())
  assert.deepEqual(subjects, ['A passkey was added to your account', 'Your passkeys are being reset'])
  assert.ok(office.got.every(({ to }) => to.join() === 'alice@example.com'))
})
