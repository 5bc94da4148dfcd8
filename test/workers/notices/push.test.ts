// Pushes: the vector of RFC 8291, and a receiver that decrypts with its own keys what a server sends.
import assert from 'node:assert/strict'
import { createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes, verify } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import { newPushRing, rotatePushRing, type PushRing } from '#workers/keys/push-keys.ts'
import { runNoticeChannel } from '#workers/notices/channel.ts'
import { encryptPush } from '#workers/notices/push.ts'
import { until } from '../../support/over-sockets/receiver.ts'
import { silent } from '../../support/in-process/worker-world.ts'
import { createWorld, type World } from '../../support/in-process/world.ts'

const bytes = (text: string): Buffer => Buffer.from(text, 'base64url')

test('the example of RFC 8291 comes out byte by byte', () => {
  const own = createECDH('prime256v1')
  own.setPrivateKey(bytes('yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw'))
  const subscription = {
    p256dh: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
    auth: 'BTBZMqHH6r4Tts7J_aSIgg',
  }
  const made = encryptPush('When I grow up, I want to be a watermelon', subscription, own, Buffer.from(bytes('DGv6ra1nlYgDCS1FRnbzlw')))
  assert.equal(
    made.toString('base64url'),
    'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN',
  )
})

/** A push service and the browser behind it, written from the RFCs alone. */
async function browser(t: TestContext) {
  const own = createECDH('prime256v1')
  own.generateKeys()
  const auth = randomBytes(16)
  const got: { headers: Record<string, any>; text: string }[] = []
  let status = 201
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const body = Buffer.concat(parts)
      const salt = body.subarray(0, 16)
      const theirs = body.subarray(21, 21 + body[20]!)
      const sealed = body.subarray(21 + body[20]!)
      const info = Buffer.concat([Buffer.from('WebPush: info\0'), own.getPublicKey(), theirs])
      const secret = Buffer.from(hkdfSync('sha256', own.computeSecret(theirs), auth, info, 32))
      const key = Buffer.from(hkdfSync('sha256', secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16))
      const nonce = Buffer.from(hkdfSync('sha256', secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12))
      const open = createDecipheriv('aes-128-gcm', key, nonce)
      open.setAuthTag(sealed.subarray(-16))
      const plain = Buffer.concat([open.update(sealed.subarray(0, -16)), open.final()])
      got.push({ headers: request.headers, text: plain.subarray(0, plain.lastIndexOf(2)).toString() })
      response.writeHead(status).end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const keys = { p256dh: own.getPublicKey().toString('base64url'), auth: auth.toString('base64url') }
  return { origin, endpoint: `${origin}/push/1`, keys, got, answerWith: (next: number) => void (status = next) }
}

function isSignedBy(header: string, key: string): any {
  const [, jwt, k] = /^vapid t=([^,]+), k=(.+)$/.exec(header)!
  assert.equal(k, key)
  const [head, claims, signature] = jwt!.split('.') as [string, string, string]
  const raw = bytes(key)
  const jwk = { kty: 'EC', crv: 'P-256', x: raw.subarray(1, 33).toString('base64url'), y: raw.subarray(33).toString('base64url') }
  const of = { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' } as const
  assert.ok(verify('sha256', Buffer.from(`${head}.${claims}`), of, bytes(signature)))
  return JSON.parse(bytes(claims).toString())
}

async function pushing(t: TestContext) {
  const ring: { now: PushRing } = { now: newPushRing('2026-01-01T00:00:00.000Z') }
  const terms = {
    asksOpenMax: null,
    criticalPerHourMax: null,
    defaultSecondsMin: null,
    publicHooksOnly: false,
    pushKey: () => ring.now.current.key,
  }
  const world = await createWorld({ now: Date.now, terms })
  const options = { allowsPrivate: true, attemptsMax: 3, random: () => 0, timeoutMs: 1_000 }
  const worker = runNoticeChannel(
    world.kernel,
    { ...options, origin: () => 'https://tasks.example.com', pushKeys: () => ring.now },
    realClock,
    silent,
  )
  t.after(worker.stop)
  return { world, ring }
}
const ask = async (world: World, payload: object, more: object = {}): Promise<string> =>
  (await world.call('devin', 'execution/request.create', { action: 'APPROVE', payload, ...more })).request.id

test('a push is encrypted to the browser and signed for its service; what it says is the title, and no argument', async (t) => {
  const [{ world, ring }, phone] = [await pushing(t), await browser(t)]
  const { key } = await world.call('alice', 'execution/channel.push_key')
  assert.equal(key, ring.now.current.key)
  await world.call('alice', 'execution/channel.add', { kind: 'push', endpoint: phone.endpoint, keys: phone.keys })
  const id = await ask(
    world,
    { item: `Send ${'x'.repeat(200)}`, details: { account: 'DE89' }, context: 'Private words.' },
    { priority: 'high' },
  )
  await until(() => phone.got.length === 1)
  const [first] = phone.got as [any]
  const claims = isSignedBy(first.headers.authorization, key)
  assert.deepEqual([claims.aud, claims.sub], [phone.origin, 'https://tasks.example.com'])
  assert.deepEqual([first.headers['content-encoding'], first.headers.urgency], ['aes128gcm', 'high'])
  const said = JSON.parse(first.text)
  assert.deepEqual([said.request_id, said.link, said.event, said.title.length <= 120], [id, `/inbox/${id}`, 'created', true])
  assert.equal('actions' in said, false, 'there is more to read')
  for (const word of ['DE89', 'Private']) assert.ok(!first.text.includes(word), word)
})

test('a push offers approve and reject only for R1 and R2 whose card is nothing but its title', async (t) => {
  const [{ world }, phone] = [await pushing(t), await browser(t)]
  await world.call('alice', 'execution/channel.add', { kind: 'push', endpoint: phone.endpoint, keys: phone.keys })
  const bare = { item: 'Restart the test server' }
  const cases: [object, object, boolean][] = [
    [bare, { risk: 'R1' }, true],
    [bare, { risk: 'R2' }, true],
    [bare, { risk: 'R3' }, false],
    [bare, {}, false],
    [{ ...bare, details: { now: true } }, { risk: 'R1' }, false],
    [{ ...bare, context: 'Why.' }, { risk: 'R1' }, false],
    [{ item: 'x'.repeat(150) }, { risk: 'R1' }, false],
    [{ item: 'Two\nlines' }, { risk: 'R1' }, false],
    [{ claim: 'The backup was restored' }, { action: 'VERIFY', risk: 'R1' }, false],
  ]
  for (const [payload, more, isAnswered] of cases) {
    const before = phone.got.length
    // A critical one waits for no burst.
    const id = await ask(world, payload, { priority: 'critical', ...more })
    await until(() => phone.got.length > before)
    const said = JSON.parse(phone.got.at(-1)!.text)
    assert.equal(said.request_id, id)
    assert.equal('actions' in said, isAnswered, JSON.stringify([payload, more]))
    if (isAnswered) assert.equal(said.digest, (await world.call('alice', 'execution/inbox.get', { request_id: id })).item.digest)
  }
})

test('a burst is one push, without items that were decided since, and critical items do not wait for it', async (t) => {
  const [{ world }, phone] = [await pushing(t), await browser(t)]
  await world.call('alice', 'execution/channel.add', { kind: 'push', endpoint: phone.endpoint, keys: phone.keys })
  const ids: string[] = []
  for (let i = 0; i < 4; i++) ids.push(await ask(world, { item: `Question ${i}` }))
  await world.call('alice', 'execution/request.resolve', { request_id: ids[1], result: 'approved' })
  await until(() => phone.got.length === 1)
  const said = JSON.parse(phone.got[0]!.text)
  assert.deepEqual([said.event, said.count, said.link], ['digest', 3, '/inbox'])
  assert.deepEqual(
    said.items.map(({ request_id }: any) => request_id),
    ids.filter((id) => id !== ids[1]),
  )
  await ask(world, { item: 'Later' })
  const urgent = await ask(world, { item: 'Now' }, { priority: 'critical' })
  await until(() => phone.got.length >= 2)
  assert.ok(phone.got[1]!.text.includes(urgent))
})

test('after a rotation earlier subscriptions go on with their key; a subscription that is gone is removed', async (t) => {
  const [{ world, ring }, phone] = [await pushing(t), await browser(t)]
  const first = ring.now.current.key
  const { channel } = await world.call('alice', 'execution/channel.add', { kind: 'push', endpoint: phone.endpoint, keys: phone.keys })
  ring.now = rotatePushRing(ring.now, '2026-02-01T00:00:00.000Z')
  assert.notEqual((await world.call('alice', 'execution/channel.push_key')).key, first)
  await world.call('alice', 'execution/channel.test', { channel_id: channel.id })
  await until(() => phone.got.length === 1)
  isSignedBy(phone.got[0]!.headers['authorization'], first)
  phone.answerWith(404)
  await ask(world, { item: 'Anybody there?' })
  await until(async () => (await world.call('alice', 'execution/channel.list')).items.length === 0)
})

function beside(p256dh: string): string {
  const bytes = Buffer.from(p256dh, 'base64url')
  bytes[64]! ^= 1
  return bytes.toString('base64url')
}

test('an endpoint that is not public, keys that are none or another kind of field are refused', async (t) => {
  const phone = await browser(t)
  const terms = { asksOpenMax: null, criticalPerHourMax: null, defaultSecondsMin: null, publicHooksOnly: true, pushKey: () => 'x' }
  const world = await createWorld({ terms })
  const add = (input: object): Promise<any> => world.call('alice', 'execution/channel.add', input)
  const good = { kind: 'push', endpoint: 'https://push.example.com/1', keys: phone.keys }
  for (const odd of [
    { ...good, endpoint: phone.endpoint },
    { ...good, endpoint: 'https://127.0.0.1/x' },
    { ...good, endpoint: 'https://10.1.2.3/x' },
    { ...good, keys: { ...phone.keys, auth: 'short' } },
    { ...good, keys: { ...phone.keys, p256dh: 'A'.repeat(87) } },
    // Its last byte is another one, so it lies beside the curve.
    { ...good, keys: { ...phone.keys, p256dh: beside(phone.keys.p256dh) } },
    { kind: 'push', endpoint: good.endpoint },
    { ...good, address: 'a@example.com' },
  ])
    await assert.rejects(add(odd), { code: 'INVALID_REQUEST' }, JSON.stringify(odd))
  assert.equal((await add(good)).secret, null)
  await assert.rejects(world.call('devin', 'execution/channel.add', good), { code: 'INVALID_REQUEST' })
})
