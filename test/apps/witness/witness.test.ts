// The witness: what it cosigns, refuses and remembers, in this process and as a process of its own that is killed.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { startWitness, type RunningWitness } from '#apps/witness/main.ts'
import { answerNow } from '#kernel/log/tree/asking.ts'
import { base64Of } from '#kernel/log/tree/base64.ts'
import { checkpointText, signCheckpoint } from '#kernel/log/tree/checkpoint.ts'
import { LOG_KEY, type VerifierKey } from '#kernel/log/tree/note.ts'
import { consistencyProof } from '#kernel/log/tree/proofs.ts'
import { createTree, rootOfRow, type Tree } from '#kernel/log/tree/tree.ts'
import { sha256Bytes } from '#kernel/log/hash-chain.ts'
import { nodeKey } from '#workers/keys/log-key.ts'
import { root } from '../../support/as-processes/cli.ts'
import { startWitnessed } from '../../support/log/bundles.ts'
import { logFolder, serve } from '../../support/log/served.ts'

type Log = {
  readonly key: VerifierKey
  readonly note: (size: number, entries?: readonly Uint8Array[]) => string
  ask(old: number, size: number): string
}

const entriesOf = (count: number, word = 'entry'): Uint8Array[] =>
  Array.from({ length: count }, (_, i) => sha256Bytes(Buffer.from(`${word} ${i}`)))
function treeOf(entries: readonly Uint8Array[]): Tree {
  const tree = createTree(sha256Bytes)
  for (const entry of entries) tree.append(entry)
  return tree
}

/** A log of its own with a key, whose entries are numbers. */
function makeLog(origin: string): Log {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const key = nodeKey(origin, LOG_KEY, Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url'))
  const note = (size: number, entries: readonly Uint8Array[] = entriesOf(size)): string => {
    const text = checkpointText({ origin, size, root: treeOf(entries.slice(0, size)).root() })
    return `${text}\n${signCheckpoint(key, text, (bytes) => sign(null, bytes, privateKey))}`
  }
  return { key, note, ask: (old, size) => request(old, size, entriesOf(size), note(size)) }
}

function request(old: number, size: number, entries: readonly Uint8Array[], note: string): string {
  const leaves = entries.map((entry) => sha256Bytes(Buffer.concat([Buffer.of(0), entry])))
  const proof = answerNow(consistencyProof(sha256Bytes, old, size), ({ height, n }) =>
    rootOfRow(sha256Bytes, Buffer.concat(leaves.slice(n * 2 ** height, (n + 1) * 2 ** height))),
  )
  return `old ${old}\n${proof.map((hash) => `${base64Of(hash)}\n`).join('')}\n${note}`
}

const post = async (url: string, body: string): Promise<{ status: number; text: string; type: string | null }> => {
  const response = await fetch(`${url}/add-checkpoint`, { method: 'POST', body })
  return { status: response.status, text: await response.text(), type: response.headers.get('content-type') }
}

async function begin(
  t: TestContext,
  logs: readonly Log[],
  data = logFolder(t),
  alarms: string[] = [],
): Promise<RunningWitness & { data: string }> {
  const settings = { logs: logs.map(({ key }) => key), name: 'w.lab.example', data, port: 0, host: '127.0.0.1' }
  const witness = await startWitness(settings, { alarm: (message) => void alarms.push(message) })
  t.after(witness.stop)
  return { ...witness, data }
}

test('a cosignature is over the time and the three lines, checked without our code, and is on disk before the answer', async (t) => {
  const log = makeLog('a.example/log')
  const witness = await begin(t, [log])
  const first = await post(witness.url, log.ask(0, 5))
  assert.equal(first.status, 200)
  const [, name, encoded] = /^\u2014 (\S+) (\S+)\n$/.exec(first.text)!
  const bytes = Buffer.from(encoded!, 'base64')
  const [, id, key] = witness.vkey.split('+')
  assert.deepEqual([name, bytes.subarray(0, 4).toString('hex')], ['w.lab.example', id])
  const seconds = bytes.readBigUInt64BE(4)
  assert.ok(Math.abs(Number(seconds) - Date.now() / 1_000) < 60)
  const text = log.note(5).split('\n\n')[0]
  const jwk = {
    kty: 'OKP',
    crv: 'Ed25519',
    x: Buffer.from(witness.vkey.slice(witness.vkey.indexOf(key!)), 'base64')
      .subarray(1)
      .toString('base64url'),
  }
  const message = Buffer.from(`cosignature/v1\ntime ${seconds}\n${text}\n`)
  assert.equal(verify(null, message, createPublicKey({ key: jwk, format: 'jwk' }), bytes.subarray(12)), true)
  const hash = createHash('sha256').update('a.example/log').digest('hex')
  assert.equal(readFileSync(join(witness.data, `${hash}.checkpoint`), 'utf8'), `${log.note(5)}${first.text}`)
  assert.equal(await (await fetch(`${witness.url}/${hash}/checkpoint`)).text(), `${log.note(5)}${first.text}`)
  assert.equal((await post(witness.url, log.ask(5, 5))).status, 200, 'the same again')
  assert.equal((await post(witness.url, log.ask(5, 300))).status, 200)
})

test('requests that are malformed, unsigned, of unknown logs, of another size or inconsistent get the statuses of C2SP', async (t) => {
  const [log, stranger] = [makeLog('a.example/log'), makeLog('b.example/log')]
  const alarms: string[] = []
  const witness = await begin(t, [log], undefined, alarms)
  assert.equal((await post(witness.url, log.ask(0, 7))).status, 200)
  const forged = entriesOf(9, 'forged')
  const cases: readonly (readonly [body: string, status: number, text: RegExp])[] = [
    ['hello', 400, /not an add-checkpoint request/],
    [log.ask(0, 7).replace('old 0', 'old 00'), 400, /not an add-checkpoint request/],
    [log.ask(7, 9).replace('old 7', 'old 8'), 409, /^7\n$/],
    [log.ask(7, 9).replace('old 7\n', `old 7\n${`${'A'.repeat(43)}=\n`.repeat(64)}`), 400, /not an add-checkpoint/],
    [`old 8\n\n${log.note(7)}`, 400, /old is 8, and the checkpoint has 7/],
    [`old 0\n\n${stranger.note(3)}`, 404, /does not know that log/],
    [`old 7\n\n${log.note(9).replace('a.example/log ', 'other.example ')}`, 403, /no key of the log signed it/],
    [log.ask(7, 9).replace(/\n9\n/, '\n8\n'), 403, /is not one of its key/],
    [`old 7\n\n${log.note(9)}`, 422, /does not follow/],
    [request(7, 9, forged, log.note(9, forged)), 422, /does not follow/],
    [request(7, 7, forged, log.note(7, forged)), 409, /^7\n$/],
    ['x'.repeat(200_000), 413, /at most/],
  ]
  for (const [body, status, text] of cases) {
    const answer = await post(witness.url, body)
    assert.deepEqual([answer.status, text.test(answer.text)], [status, true], `${body.slice(0, 60)}: ${answer.status} ${answer.text}`)
    if (status === 409) assert.equal(answer.type, 'text/x.tlog.size')
  }
  assert.equal((await fetch(`${witness.url}/nothing`)).status, 404)
  const kept = readdirSync(witness.data).filter((name) => name.startsWith('conflict-'))
  assert.ok(kept.length >= 1, 'the signed contradiction is kept')
  assert.ok(readFileSync(join(witness.data, kept.at(-1)!), 'utf8').includes(log.note(7).split('\n')[2]!))
  assert.match(alarms.at(-1)!, /a\.example\/log: size 7 does not follow from size 7, see conflict-\d+\.txt/)
  assert.equal((await post(witness.url, log.ask(7, 9))).status, 200, 'it goes on with the log that it knows')
})

test('of racing posts and two logs each is judged alone', async (t) => {
  const [a, b] = [makeLog('a.example/log'), makeLog('b.example/log')]
  const witness = await begin(t, [a, b])
  const answers = await Promise.all([...[3, 5, 8, 13].map((size) => post(witness.url, a.ask(0, size))), post(witness.url, b.ask(0, 4))])
  assert.equal(answers.slice(0, 4).filter(({ status }) => status === 200).length, 1)
  assert.ok(answers.slice(0, 4).every(({ status }) => status === 200 || status === 409))
  assert.equal(answers[4]!.status, 200)
})

test('a start without readable memory, with another name or under another witness is refused', async (t) => {
  const log = makeLog('a.example/log')
  const first = await begin(t, [log])
  assert.equal((await post(first.url, log.ask(0, 5))).status, 200)
  await assert.rejects(begin(t, [log], first.data), /another witness uses/)
  await first.stop()
  const other = { logs: [log.key], name: 'other.example', data: first.data, port: 0, host: '127.0.0.1' }
  await assert.rejects(startWitness(other), /is that of w\.lab\.example/)
  const file = join(
    first.data,
    readdirSync(first.data).find((name) => name.endsWith('.checkpoint'))!,
  )
  const whole = readFileSync(file, 'utf8')
  for (const text of ['', whole.slice(0, 60), log.note(5), makeLog('a.example/log').note(5)]) {
    writeFileSync(file, text)
    await assert.rejects(begin(t, [log], first.data), /must not sign/, JSON.stringify(text.slice(0, 30)))
  }
  writeFileSync(file, whole)
  const again = await begin(t, [log], first.data)
  assert.equal(again.vkey, first.vkey)
  assert.deepEqual(await post(again.url, log.ask(0, 9)).then(({ status, text }) => [status, text]), [409, '5\n'])
})

test('the command prints its key and address, remembers over kill -9, and ends with 2 for settings that cannot be used', async (t) => {
  const log = makeLog('a.example/log')
  const data = logFolder(t)
  const run = (...words: string[]) => {
    const child = spawn(process.execPath, [join(root, 'bin/countersign.js'), 'witness', ...words], { stdio: ['ignore', 'pipe', 'pipe'] })
    t.after(() => child.kill('SIGKILL'))
    return child
  }
  const words = ['--log', log.key.text, '--name', 'w.lab.example', '--data', data, '--port', '0']
  let size = 0
  for (let round = 0; round < 3; round++) {
    const child = run(...words)
    const [said] = (await once(child.stdout, 'data')) as [Buffer]
    const [, url, vkey] = /^countersign witness ready (http:\S+)\n(w\.lab\.example\+\S+)\n/.exec(String(said))!
    assert.ok(vkey)
    assert.equal((await post(url!, log.ask(size, size + 3))).status, 200, `round ${round}`)
    size += 3
    // Killed while it works on the next one: it either remembers it, or has not answered.
    const last = post(url!, log.ask(size, size + 2)).catch(() => null)
    child.kill('SIGKILL')
    await once(child, 'exit')
    const answer = await last
    const [file] = readdirSync(data).filter((name) => name.endsWith('.checkpoint'))
    const kept = Number(readFileSync(join(data, file!), 'utf8').split('\n')[1])
    if (answer?.status === 200) assert.equal(kept, size + 2)
    size = kept
  }
  const bad = run('--name', 'w', '--data', data)
  const [code] = (await once(bad, 'exit')) as [number]
  assert.equal(code, 2)
})

test('a server with two witnesses has each checkpoint cosigned, and a fork of its record is refused and degrades its health', async (t) => {
  const { folder, served, witnesses } = await startWitnessed(t)
  const note = await served.covered()
  for (const name of ['w1.example', 'w2.example']) assert.match(note, new RegExp(`\u2014 ${name} `))
  const { log } = await served.health()
  assert.deepEqual(
    log.witnesses.map(({ name, state }: any) => [name, state]),
    [
      ['w1.example', 'ok'],
      ['w2.example', 'ok'],
    ],
  )
  await served.stop()
  assert.ok(readdirSync(join(folder, 'log', 'kept')).length > 0, 'cosigned ones are kept')
  const fork = logFolder(t)
  cpSync(folder, fork, { recursive: true })
  const args = ['--log-every', 'PT0.1S', '--witnesses', join(folder, 'witnesses.txt')]
  const one = await serve(folder, args)
  for (const id of ['project_one', 'project_two']) await one.call('identity/project.add', { id, name: 'P' })
  await one.covered()
  await witnesses[1]!.stop()
  await one.call('identity/project.add', { id: 'project_three', name: 'P' })
  const state = async (from: typeof one, name: string): Promise<string> =>
    (await from.health()).log.witnesses.find((witness: any) => witness.name === name).state
  while ((await state(one, 'w2.example')) !== 'unreachable') await new Promise((done) => setTimeout(done, 20))
  const { log: seen, status } = await one.health()
  assert.ok(status === 'ok' && seen.witnessed < seen.signed, 'an unreachable witness stops nothing')
  await one.stop()
  // The other copy has every key, and another history.
  const two = await serve(fork, args)
  for (const id of ['project_a', 'project_b', 'project_c', 'project_d']) await two.call('identity/project.add', { id, name: 'P' })
  while ((await state(two, 'w1.example')) !== 'refused') await new Promise((done) => setTimeout(done, 20))
  assert.deepEqual([(await two.get('/health')).status, (await two.health()).status], [503, 'degraded'])
})

test('witnesses that answer HTML, 409 forever, a size beyond ours or nothing are named, and no call waits for them', async (t) => {
  const answers: Record<string, RequestListener> = {
    html: (_, response) => void response.end('<html>hello</html>'),
    forever: (request, response) => {
      let body = ''
      request.on('data', (part) => (body += String(part)))
      request.on(
        'end',
        () => void response.writeHead(409, { 'content-type': 'text/x.tlog.size' }).end(body.startsWith('old 1\n') ? '2\n' : '1\n'),
      )
    },
    beyond: (_, response) => void response.writeHead(409, { 'content-type': 'text/x.tlog.size' }).end('999999\n'),
    refusing: (_, response) => void response.writeHead(422).end('no\n'),
    silent: () => undefined,
  }
  const folder = logFolder(t)
  const first = await serve(folder, ['--log-every', 'PT0.1S'])
  await first.stop()
  const lines: string[] = []
  for (const [name, listener] of Object.entries(answers)) {
    const server = createServer(listener).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => server.closeAllConnections())
    t.after(() => server.close())
    const { publicKey } = generateKeyPairSync('ed25519')
    const key = nodeKey(`${name}.example`, 4, Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url'))
    lines.push(`witness ${name} ${key.text} http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  }
  const file = join(folder, 'w.txt')
  writeFileSync(file, `${lines.join('\n')}\nquorum none\n`)
  const served = await serve(folder, ['--log-every', 'PT0.1S', '--witnesses', file])
  const states = async (): Promise<Record<string, string>> =>
    Object.fromEntries((await served.health()).log.witnesses.map((one: any) => [one.name.replace('.example', ''), one.state]))
  const wanted = { html: 'unreachable', forever: 'behind', beyond: 'refused', refusing: 'refused', silent: 'behind' }
  for (;;) {
    await served.call('collaboration/audit.proof', { project_id: 'system', seq: 1 })
    const found = await states()
    if (JSON.stringify(found) === JSON.stringify(wanted)) break
    await new Promise((done) => setTimeout(done, 20))
  }
  const health = await served.get('/health')
  assert.deepEqual([health.status, ((await health.json()) as any).status], [503, 'degraded'])
  assert.equal((await served.call('identity/project.add', { id: 'project_free', name: 'Free' })).status, 200)
  await served.stop()
  const { key } = JSON.parse(JSON.stringify({ key: /^log (\S+)/.exec(await readPolicy(t, folder))![1] }))
  writeFileSync(file, `witness own ${nodeKey('own.example', 4, ownBytes(key)).text} http://127.0.0.1:1\nquorum own\n`)
  await assert.rejects(serve(folder, ['--witnesses', file]), /a log is not its own witness/)
  for (const [text, why] of [
    ['witness a b c\n', /verifier key/],
    [`${lines[0]}\n`, /names no quorum/],
    [`${lines[0]}\n${lines[0]!.replace('witness html', 'witness again')}\nquorum none\n`, /same key/],
  ] as const) {
    writeFileSync(file, text)
    await assert.rejects(serve(folder, ['--witnesses', file]), why)
  }
})

const ownBytes = (vkey: string): Buffer => Buffer.from(vkey.split('+').slice(2).join('+'), 'base64').subarray(1)
async function readPolicy(t: TestContext, folder: string): Promise<string> {
  const served = await serve(folder)
  const text = await served.text('/log/policy')
  await served.stop()
  return text
}
