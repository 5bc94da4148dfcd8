// Keys on real disks: created once, private, complete or absent; never replaced silently; rotated under a running server.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { examineFolder } from '#apps/cli/remote/examine-folder.ts'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { realClock, realEntropy } from '#apps/server/clock.ts'
import { openKeyFiles, replaceLost, rotateKeys, watchKeys } from '#apps/server/folder/key-files.ts'
import { installationOf } from '#apps/server/folder/installation.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer, type Server } from '#apps/server/server.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { jwksOf, ringFrom, type KeyRing } from '#workers/keys/key-ring.ts'
import { createNotary } from '#workers/keys/notary.ts'
import { verifyReceipt } from '#sdk/receipt.ts'
import { inProcess, runPiped, temporary } from '../../support/as-processes/cli.ts'
import { send } from '../../support/over-sockets/http-client.ts'
import { claims, receiptOf } from '../../support/over-sockets/receipts.ts'
import { dataFolder, runToEnd, start } from '../../support/as-processes/server-process.ts'

const maker = { now: realClock.now, entropy: realEntropy }
const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8)
const ringIn = (data: string): KeyRing => ringFrom(readFileSync(join(data, 'keys', 'signing.json'), 'utf8'))
const serverKeyIn = (data: string): string => readFileSync(join(data, 'keys', 'server.key'), 'utf8')

async function serve(t: TestContext, data: string): Promise<Server> {
  const { config } = readConfig(['--data', data, '--port', '0', '--log', 'silent'], {}) as { config: Config }
  const server = await startServer(config, { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) })
  t.after(() => server.stop())
  return server
}

const published = async (port: number): Promise<{ keys: Record<string, string>[] }> =>
  (await send(port, '/.well-known/jwks.json', { method: 'GET' })).json

async function eventually<T>(look: () => Promise<T>, isThere: (seen: T) => boolean): Promise<T> {
  for (let waited = 0; ; waited += 50) {
    const seen = await look()
    if (isThere(seen)) return seen
    assert.ok(waited < 20_000, 'it never came')
    await new Promise((done) => setTimeout(done, 50))
  }
}

test('a first start makes private keys, the next ones keep them, and the public half is published', async (t) => {
  const data = dataFolder(t)
  const first = await serve(t, data)
  assert.equal(modeOf(join(data, 'keys')), '700')
  for (const file of ['server.key', 'signing.json']) assert.equal(modeOf(join(data, 'keys', file)), '600', file)
  const [ring, key] = [ringIn(data), serverKeyIn(data)]
  const answer = await send(first.port, '/.well-known/jwks.json', { method: 'GET' })
  assert.equal(answer.status, 200)
  assert.equal(answer.headers['cache-control'], 'public, max-age=60')
  assert.match(String(answer.headers['content-type']), /^application\/json/)
  const [key0] = answer.json.keys as Record<string, string>[]
  assert.deepEqual(answer.json, jwksOf(ring))
  assert.ok(!answer.text.includes(ring.current.jwk.d) && !('d' in key0!))
  assert.equal(key0!['countersign:from'], ring.current.created_at)
  assert.equal((await send(first.port, '/.well-known/jwks.json', { method: 'POST' })).status, 405)
  await first.stop()
  const second = await serve(t, data)
  assert.deepEqual(ringIn(data), ring)
  assert.equal(serverKeyIn(data), key)
  assert.deepEqual(await published(second.port), jwksOf(ring))
})

test('an installation keeps its id over restarts and new keys, and no other has it', async (t) => {
  const data = dataFolder(t)
  const idAt = async (port: number): Promise<string> => (await send(port, '/health', { method: 'GET' })).json.installation as string
  const first = await serve(t, data)
  const id = await idAt(first.port)
  assert.match(id, /^inst_[\w-]{22}$/)
  await first.stop()
  rmSync(join(data, 'keys'), { recursive: true })
  await replaceLost(join(data, 'keys'), maker)
  assert.equal(await idAt((await serve(t, data)).port), id)
  assert.notEqual(await idAt((await serve(t, dataFolder(t))).port), id)
})

test('a first event that was changed does not make the second one the first: the id is that of no other', async (t) => {
  const data = dataFolder(t)
  const first = await serve(t, data)
  const store = sqliteStore(join(data, 'countersign.db'), { readOnly: true })
  const id = await installationOf(store)
  await store.close()
  await first.stop()
  const changed = async (sql: string): Promise<string> => {
    const db = new DatabaseSync(join(data, 'countersign.db'))
    db.exec(sql)
    db.close()
    const opened = sqliteStore(join(data, 'countersign.db'), { readOnly: true })
    try {
      return await installationOf(opened)
    } finally {
      await opened.close()
    }
  }
  assert.equal(await changed(`UPDATE facts SET line = replace(line, '"basis"', '"bases"') WHERE scope = 'system' AND seq = 1`), id)
  await assert.rejects(changed(`DELETE FROM facts WHERE scope = 'system' AND seq = 1`), /the record has no first event: restore a backup/)
})

test('a first start that was killed between the files resumes', async (t) => {
  const data = dataFolder(t)
  const keys = join(data, 'keys')
  mkdirSync(keys, { recursive: true, mode: 0o700 })
  // server.key is there; of the ring only what was being written.
  writeFileSync(join(keys, 'server.key'), `${Buffer.alloc(32, 7).toString('base64url')}\n`, { mode: 0o600 })
  writeFileSync(join(keys, 'signing.json.new'), '{"v":1,"curr', { mode: 0o600 })
  await (await serve(t, data)).stop()
  assert.equal(serverKeyIn(data).trim(), Buffer.alloc(32, 7).toString('base64url'))
  assert.deepEqual(readdirSync(keys).toSorted(), ['log.json', 'push.json', 'sealed', 'server.key', 'signing.json'])
  assert.equal(ringIn(data).retired.length, 0)
})

test('a start that is killed at any moment leaves keys that the next one starts with', async (t) => {
  const data = dataFolder(t)
  let isReady = false
  for (let ms = 200; !isReady && ms < 20_000; ms *= 1.4) {
    const child = `exec "${process.execPath}" src/apps/server/main.ts --data "${data}" --port 0 --log silent & sleep ${ms / 1_000}; kill -9 $! 2>/dev/null; wait $! 2>/dev/null; true`
    execFileSync('sh', ['-c', child], { stdio: 'ignore' })
    isReady = existsSync(join(data, 'admin.key'))
  }
  assert.ok(isReady)
  const key = serverKeyIn(data)
  await (await serve(t, data)).stop()
  assert.equal(serverKeyIn(data), key)
})

test('a missing or broken key beside a database stops the start with a message, and no key is made', async (t) => {
  const data = dataFolder(t)
  await (await serve(t, data)).stop()
  const whole = join(dirname(data), 'whole')
  cpSync(join(data, 'keys'), whole, { recursive: true })
  const keys = join(data, 'keys')
  const ring = readFileSync(join(keys, 'signing.json'), 'utf8')
  const changes: Record<string, (() => void) | undefined> = {
    'server.key is missing': () => rmSync(join(keys, 'server.key')),
    'signing.json is missing': () => rmSync(join(keys, 'signing.json')),
    'keys/server.key is missing. Restore': () => rmSync(keys, { recursive: true }),
    'server.key is broken: it does not hold a key of 32 bytes': () => writeFileSync(join(keys, 'server.key'), 'c2hvcnQ\n'),
    'signing.json is broken: it is cut off': () => writeFileSync(join(keys, 'signing.json'), ring.slice(0, ring.length / 2)),
    'signing.json is broken: it is no key ring': () => writeFileSync(join(keys, 'signing.json'), '{}'),
    'signing.json is broken: it is too large': () => writeFileSync(join(keys, 'signing.json'), ' '.repeat(2_000_000)),
    'server.key is broken: it does not': () => writeFileSync(join(keys, 'server.key'), ''),
  }
  for (const [message, change] of Object.entries(changes)) {
    change!()
    const before = existsSync(keys) ? readdirSync(keys) : []
    await assert.rejects(serve(t, data), (error: Error) => {
      assert.equal(error.name, 'StartError')
      assert.ok(error.message.includes(message), `${message}: ${error.message}`)
      assert.match(error.message, /Restore the folder keys\/ .*`countersign receipt rotate --lost/)
      return true
    })
    assert.deepEqual(existsSync(keys) ? readdirSync(keys) : [], before, message)
    rmSync(keys, { recursive: true, force: true })
    cpSync(whole, keys, { recursive: true })
  }
  rmSync(join(keys, 'server.key'))
  const ended = await runToEnd(t, ['--data', data, '--port', '0'])
  assert.equal(ended.code, 1)
  assert.match(ended.stderr, /^countersign: .*server\.key is missing/)
})

test('keys that others may read are closed to them', async (t) => {
  const data = dataFolder(t)
  await (await serve(t, data)).stop()
  chmodSync(join(data, 'keys'), 0o755)
  for (const file of ['server.key', 'signing.json']) chmodSync(join(data, 'keys', file), 0o644)
  await serve(t, data)
  assert.equal(modeOf(join(data, 'keys')), '700')
  for (const file of ['server.key', 'signing.json']) assert.equal(modeOf(join(data, 'keys', file)), '600', file)
})

test('a rotation reaches the running server within seconds; old receipts verify, and a broken ring changes nothing', async (t) => {
  const data = dataFolder(t)
  const server = await start(t, ['--data', data, '--log', 'info'])
  const before = ringIn(data)
  const old = await receiptOf(createNotary(Buffer.alloc(32), () => before))
  const env = { HOME: temporary('home') }
  const said = await runPiped(['receipt', 'rotate', '--data', data, '--json'], { env, cwd: dirname(data) })
  assert.equal(said.code, 0, said.err)
  const ring = ringIn(data)
  assert.deepEqual(JSON.parse(said.out), jwksOf(ring))
  assert.equal(ring.retired[0]!.kid, before.current.kid)
  assert.ok(!readFileSync(join(data, 'keys', 'signing.json'), 'utf8').includes(before.current.jwk.d))
  assert.equal(modeOf(join(data, 'keys', 'signing.json')), '600')
  const jwks = await eventually(
    () => published(server.port),
    ({ keys }) => keys[0]!['kid'] === ring.current.kid,
  )
  assert.deepEqual(jwks, jwksOf(ring))
  assert.equal(jwks.keys[1]!['countersign:until'], ring.current.created_at)
  assert.equal((await verifyReceipt(old, { jwks })).ok, true)
  writeFileSync(join(data, 'keys', 'signing.json'), '{"v":1,')
  await eventually(
    () => Promise.resolve(server.stderr()),
    (text) => text.includes('those before them still are'),
  )
  assert.deepEqual(await published(server.port), jwksOf(ring))
  const { code, stderr } = await server.end()
  assert.equal(code, 0)
  assert.match(stderr, /receipts are signed with a new key/)
  assert.equal(stderr.split('those before them still are').length, 2, 'said once')
  assert.ok(!stderr.includes(ring.current.jwk.d) && !stderr.includes(serverKeyIn(data).trim()))
})

test('rotations at the same time lose no key, and one that was killed leaves the ring as it was', async (t) => {
  const data = dataFolder(t)
  const keys = join(data, 'keys')
  await openKeyFiles(keys, true, maker)
  writeFileSync(join(keys, 'signing.json.new'), '{"v":1,"current":')
  const made = await Promise.allSettled(Array.from({ length: 8 }, () => rotateKeys(keys, Date.now())))
  const done = made.filter((one) => one.status === 'fulfilled')
  assert.ok(done.length >= 1)
  for (const one of made) if (one.status === 'rejected') assert.match(String(one.reason), /another rotation of .* is under way/)
  const ring = ringIn(data)
  assert.equal(ring.retired.length, done.length)
  for (const { value } of done) assert.ok([ring.current, ...ring.retired].some(({ kid }) => kid === value.current.kid))
})

test('a clock of its own: the ring is looked at again after every sleep, and not after a stop', async (t) => {
  const data = dataFolder(t)
  const keys = await openKeyFiles(join(data, 'keys'), true, maker)
  let wake: () => void = () => undefined
  const clock = {
    now: Date.now,
    sleep: (_: number, signal: AbortSignal) =>
      new Promise<void>((done) => {
        wake = done
        signal.addEventListener('abort', () => done())
      }),
  }
  const log = { debug() {}, info() {}, warn() {}, error: (_: object, message: string) => assert.fail(message) }
  const watcher = watchKeys(keys, clock, log, () => Promise.resolve())
  const { current } = await rotateKeys(join(data, 'keys'), Date.now())
  assert.notEqual(keys.ring().current.kid, current.kid, 'not before it looks')
  wake()
  await eventually(
    () => Promise.resolve(keys.ring().current.kid),
    (kid) => kid === current.kid,
  )
  await watcher.stop()
})

test('lost keys are replaced on demand only, broken ones are kept aside, and never under a running server', async (t) => {
  const data = dataFolder(t)
  const cli = inProcess({ home: temporary('home') })
  const lost = ['receipt', 'rotate', '--lost', '--data', data]
  const server = await serve(t, data)
  const refused = await cli.run(lost)
  assert.equal(refused.code, 1)
  assert.match(refused.err, /a server uses .*: stop it first/)
  await server.stop()
  assert.equal((await cli.run(lost)).out, 'nothing is missing\n')
  const kept = serverKeyIn(data)
  writeFileSync(join(data, 'keys', 'signing.json'), 'broken')
  const made = await cli.run(lost)
  assert.equal(made.code, 0, made.err)
  assert.match(made.out, /^! replaced: .*signing\.json\n$/)
  assert.equal(serverKeyIn(data), kept)
  assert.equal(readdirSync(join(data, 'keys')).filter((name) => name.startsWith('signing.json.broken-')).length, 1)
  // The key that was not lost is still the one that the record names, or there is no start.
  const file = join(data, 'keys', 'server.key')
  const good = readFileSync(file)
  writeFileSync(file, `${Buffer.alloc(32, 1).toString('base64url')}\n`)
  await assert.rejects(serve(t, data), /server\.key in .* is not the one that the record names/)
  writeFileSync(file, good)
  rmSync(join(data, 'keys'), { recursive: true })
  assert.equal((await cli.run(lost)).code, 0)
  await serve(t, data)
})

test('a lost signing ring leaves the tags of documents as they are: one that was forged is still found', async (t) => {
  const data = dataFolder(t)
  const cli = inProcess({ home: temporary('home') })
  const server = await serve(t, data)
  const authorization = `Bearer ${readFileSync(join(data, 'admin.key'), 'utf8').trim()}`
  const headers = { authorization, 'content-type': 'application/json', 'idempotency-key': 'once' }
  const added = await send(server.port, '/v1/identity/user.add', { headers, body: JSON.stringify({ id: 'user_alice', name: 'Alice' }) })
  assert.equal(added.status, 200, added.text)
  await server.stop()
  const db = new DatabaseSync(join(data, 'countersign.db'))
  const forged = db.prepare("UPDATE docs SET text = replace(text, 'Alice', 'Mallory') WHERE key LIKE 'kernel.reply/%'").run()
  db.close()
  assert.equal(forged.changes, 1)
  writeFileSync(join(data, 'keys', 'signing.json'), 'broken')
  assert.equal((await cli.run(['receipt', 'rotate', '--lost', '--data', data])).code, 0)
  await (await serve(t, data)).stop()
  const { found } = await examineFolder(data, () => undefined)
  assert.match(found.map(({ what, how }) => `${what}: ${how}`).join(), /kernel\.reply\/\S+: its tag does not fit/)
})

test('the command line verifies with saved keys, with a folder and with a server, and says why not', async (t) => {
  const data = dataFolder(t)
  const home = temporary('home')
  const cli = inProcess({ home })
  const server = await serve(t, data)
  const ring = ringIn(data)
  const receipt = await receiptOf(createNotary(Buffer.alloc(32), () => ring))
  writeFileSync(join(home, 'receipt.json'), JSON.stringify(receipt))
  writeFileSync(join(home, 'jwks.json'), JSON.stringify(jwksOf(ring)))
  writeFileSync(join(home, 'changed.json'), JSON.stringify({ ...receipt, result: 'rej\u001b[31mected' }))
  const by = createNotary(Buffer.alloc(32), () => ring)
  const issued = await receiptOf(by, claims({ iss: 'https://tasks.example.com#inst_1' }))
  writeFileSync(join(home, 'issued.json'), JSON.stringify(issued))
  const defaulted = await receiptOf(by, claims({ basis: { kind: 'default', id: 'fallback/default' } }))
  writeFileSync(join(home, 'default.json'), JSON.stringify(defaulted))
  const saved = ['--keys', 'jwks.json']
  const good = await cli.run(['receipt', 'verify', 'receipt.json', ...saved])
  assert.equal(good.code, 0, good.err)
  assert.match(good.out, /^✔ the receipt is genuine\n/)
  for (const message of [
    'agent_devin',
    'completed: approved',
    'human person_abc',
    'with a key, by role',
    'project_default, number 17',
    'not signed  duration_seconds',
  ])
    assert.ok(good.out.includes(message), `${message} in ${good.out}`)
  assert.equal((await cli.run(['receipt', 'verify', '-', ...saved], JSON.stringify({ receipt }))).code, 0)
  assert.equal((await cli.run(['receipt', 'verify', 'receipt.json', '--data', data])).code, 0)
  assert.equal((await cli.run(['receipt', 'verify', 'receipt.json', '--url', server.url])).code, 0)
  const json = await cli.run(['receipt', 'verify', 'receipt.json', ...saved, '--json'])
  assert.deepEqual(JSON.parse(json.out), { ok: true, claims: claims(), unsigned: ['duration_seconds'] })

  const changed = await cli.run(['receipt', 'verify', 'changed.json', ...saved])
  assert.deepEqual([changed.code, changed.out], [1, '✖ the receipt does not hold: not what was signed: result [changed]\n'])
  const asJson = await cli.run(['receipt', 'verify', 'changed.json', ...saved, '--json'])
  assert.equal(asJson.code, 1)
  assert.equal(JSON.parse(asJson.out).reason, 'changed')
  const more = await cli.run(['receipt', 'verify', '-', ...saved], JSON.stringify({ ...receipt, approved_by: 'the board' }))
  assert.deepEqual(
    [more.code, more.out],
    [1, '✖ the receipt does not hold: not signed, and no part of a receipt: approved_by [not_signed]\n'],
  )
  const twice = await cli.run(['receipt', 'verify', '-', ...saved], JSON.stringify(receipt).replace('{', '{"result":"rejected",'))
  assert.equal(twice.code, 1)
  assert.match(twice.out, /the key "result" appears twice/)
  for (const issuer of ['https://tasks.example.com#inst_1', 'https://tasks.example.com', 'inst_1'])
    assert.equal((await cli.run(['receipt', 'verify', 'issued.json', ...saved, '--issuer', issuer])).code, 0, issuer)
  for (const issuer of ['https://tasks.example.com#inst_2', 'https://example.com', 'inst_', 'https://tasks.example.com#'])
    assert.match((await cli.run(['receipt', 'verify', 'issued.json', ...saved, '--issuer', issuer])).out, /\[wrong_issuer\]/, issuer)
  const byDefault = (await cli.run(['receipt', 'verify', 'default.json', ...saved])).out
  assert.match(byDefault, /nobody answered in time.*\n.*outcome/)
  assert.match((await cli.run(['receipt', 'verify', 'receipt.json', ...saved, '--audience', 'agent_robin'])).out, /\[wrong_audience\]/)
  assert.match((await cli.run(['receipt', 'verify', 'receipt.json', ...saved, '--issuer', 'x'])).out, /\[wrong_issuer\]/)
  assert.match((await cli.run(['receipt', 'verify', 'receipt.json', ...saved, '--request', 'jwks.json'])).out, /\[wrong_request\]/)

  const codes: [readonly string[], number][] = [
    [['receipt', 'verify'], 2],
    [['receipt', 'verify', 'nowhere.json', ...saved], 2],
    [['receipt', 'verify', 'receipt.json', '--keys', 'receipt.json'], 2],
    [['receipt', 'verify', '-', '--keys', '-'], 2],
    [['receipt', 'verify', '-', ...saved], 2], // no JSON
    [['receipt', 'verify', 'receipt.json', '--data', join(home, 'nothing')], 1],
    [['receipt', 'verify', 'receipt.json', '--url', 'http://127.0.0.1:1'], 3],
    [['receipt', 'rotate', '--data', join(home, 'nothing')], 1],
  ]
  for (const [argv, code] of codes) {
    const ran = await cli.run(argv)
    assert.equal(ran.code, code, `${argv.join(' ')}: ${ran.err}`)
    assert.match(ran.err, /^countersign: /)
  }
})

test('the command line lists keys with their dates', async (t) => {
  const data = dataFolder(t)
  const cli = inProcess({ home: temporary('home') })
  await openKeyFiles(join(data, 'keys'), true, maker)
  const rotated = await cli.run(['receipt', 'rotate', '--data', data])
  assert.equal(rotated.code, 0, rotated.err)
  const ring = ringIn(data)
  assert.ok(rotated.out.includes(ring.current.kid) && rotated.out.includes(ring.retired[0]!.kid))
  const listed = await cli.run(['receipt', 'keys', '--data', data])
  const lines = listed.out.trimEnd().split('\n')
  assert.match(lines[0]!, /^KEY +FROM +UNTIL$/)
  assert.equal(lines[1]!.split(/ +/).join(' '), `${ring.current.kid} ${ring.current.created_at} -`)
  assert.equal(lines[2]!.split(/ +/).join(' '), `${ring.retired[0]!.kid} ${ring.retired[0]!.created_at} ${ring.retired[0]!.retired_at}`)
  assert.deepEqual(JSON.parse((await cli.run(['receipt', 'keys', '--data', data, '--json'])).out), jwksOf(ring))
  assert.ok(!`${listed.out}${rotated.out}`.includes(ring.current.jwk.d))
})

test('doctor looks at the keys', async (t) => {
  const data = dataFolder(t)
  const cli = inProcess({ home: temporary('home'), env: { COUNTERSIGN_URL: 'http://127.0.0.1:9' } })
  await (await serve(t, data)).stop()
  const finding = async (): Promise<{ status: string; words: string }> => {
    const { out } = await cli.run(['doctor', '--quick', '--json', '--data', data])
    return JSON.parse(out).findings.find(({ check }: { check: string }) => check === 'keys')
  }
  assert.equal((await finding()).status, 'ok')
  chmodSync(join(data, 'keys', 'server.key'), 0o644)
  assert.deepEqual([(await finding()).status, /others may look into .*server\.key/.test((await finding()).words)], ['fail', true])
  renameSync(join(data, 'keys', 'signing.json'), join(data, 'keys', 'elsewhere'))
  assert.match((await finding()).words, /signing\.json is missing/)
})
