// The store of bytes, on a real folder: whole or not at all, once, durable, and never taken away from under a reader.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { test, type TestContext } from 'node:test'
import type { Blobs } from '#kernel/ports/blobs.ts'
import type { Refusal } from '#kernel/declare/errors.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { until } from '../support/over-sockets/receiver.ts'

const MAX = 1024 * 1024
const checksumOf = (bytes: Uint8Array): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'countersign-blobs-'))
  t.after(() => rmSync(path, { recursive: true, force: true }))
  return path
}
const openIn = (path: string): Promise<Blobs> => openBlobs(path, { fatal: (error) => assert.fail(String(error)) })

async function* portions(bytes: Uint8Array, of = 1000): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += of) yield bytes.subarray(at, at + of)
}
async function readAll(stream: AsyncIterable<Uint8Array> | null): Promise<Buffer> {
  assert.ok(stream)
  const chunks: Uint8Array[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}
async function keep(blobs: Blobs, bytes: Uint8Array): Promise<string> {
  const held = await blobs.put(portions(bytes), {}, MAX)
  held.release()
  return held.checksum
}
const pathOf = (path: string, checksum: string): string => join(path, checksum.slice(7, 9), checksum.slice(9, 11), checksum.slice(7))
const leftovers = (path: string): string[] => readdirSync(join(path, 'incoming'))
/** Every file that has a name. */
const named = (path: string): string[] =>
  readdirSync(path, { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() && !entry.parentPath.endsWith('incoming') ? [join(entry.parentPath, entry.name)] : [],
  )

test('bytes come back as they came, under the name of their content, and only their owner can read them', async (t) => {
  const path = folder(t)
  const blobs = await openIn(path)
  const bytes = randomBytes(300_000)
  const held = await blobs.put(portions(bytes), { checksum: checksumOf(bytes), size: bytes.length }, MAX)
  assert.deepEqual([held.checksum, held.size], [checksumOf(bytes), bytes.length])
  assert.ok((await readAll(await blobs.open(held.checksum))).equals(bytes))
  assert.equal(await blobs.size(held.checksum), bytes.length)
  assert.deepEqual(named(path), [pathOf(path, held.checksum)])
  assert.equal(statSync(pathOf(path, held.checksum)).mode & 0o777, 0o600)
  assert.deepEqual(leftovers(path), [])
})

test('chunks are only lent: their memory may be used again for the next one, whatever their length', async (t) => {
  const blobs = await openIn(folder(t))
  const bytes = randomBytes(MAX)
  for (const length of [1_000, 65_536, 262_145, MAX]) {
    const lent = new Uint8Array(length)
    async function* source(): AsyncIterable<Uint8Array> {
      for (let at = 0; at < bytes.length; at += length) {
        const part = bytes.subarray(at, at + length)
        lent.set(part)
        yield lent.subarray(0, part.length)
        lent.fill(0)
      }
    }
    const held = await blobs.put(source(), {}, MAX)
    assert.equal(held.checksum, checksumOf(bytes))
    assert.ok((await readAll(await blobs.open(held.checksum))).equals(bytes), `chunks of ${length}`)
    await held.discard()
  }
})

test('no bytes at all are bytes too', async (t) => {
  const blobs = await openIn(folder(t))
  const checksum = await keep(blobs, new Uint8Array())
  assert.equal(checksum, 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  assert.equal((await readAll(await blobs.open(checksum))).length, 0)
})

test('a range is a part of the bytes, both ends included', async (t) => {
  const blobs = await openIn(folder(t))
  const checksum = await keep(blobs, Buffer.from('0123456789'))
  assert.equal(String(await readAll(await blobs.open(checksum, { first: 2, last: 4 }))), '234')
  assert.equal(String(await readAll(await blobs.open(checksum, { first: 9, last: 9 }))), '9')
})

for (const name of [`sha256:${'0'.repeat(64)}`, 'sha256:../../../../etc/passwd', '', `sha256:${'A'.repeat(64)}`, `md5:${'0'.repeat(64)}`]) {
  test(`there are no bytes under ${JSON.stringify(name)}`, async (t) => {
    const blobs = await openIn(folder(t))
    assert.equal(await blobs.open(name), null)
    assert.equal(await blobs.size(name), null)
  })
}

const hello = Buffer.from('hello world')
const refusals: readonly [message: string, announced: { checksum?: string; size?: number }, max: number, code: string, message: RegExp][] =
  [
    ['longer than announced', { size: 10 }, MAX, 'INVALID_REQUEST', /more than the 10 bytes/],
    ['shorter than announced', { size: 12 }, MAX, 'INVALID_REQUEST', /12 bytes were announced, 11 came/],
    [
      'different from what was announced',
      { checksum: checksumOf(Buffer.from('hello w0rld')) },
      MAX,
      'INVALID_REQUEST',
      /not what was announced/,
    ],
    ['longer than the limit', {}, 10, 'TOO_LARGE', /at most 10 bytes/],
    ['announced as longer than the limit', { size: 11 }, 10, 'TOO_LARGE', /at most 10 bytes/],
  ]
for (const [reason, announced, max, code, message] of refusals) {
  test(`bytes that are ${reason} are refused and leave nothing`, async (t) => {
    const path = folder(t)
    const blobs = await openIn(path)
    await assert.rejects(blobs.put(portions(hello, 3), announced, max), (error: Refusal) => {
      assert.equal(error.code, code)
      assert.match(error.message, message)
      return true
    })
    assert.deepEqual([leftovers(path), named(path)], [[], []])
  })
}

test('nothing is read after the first byte too many', async (t) => {
  const blobs = await openIn(folder(t))
  let given = 0
  async function* endless(): AsyncIterable<Uint8Array> {
    for (;;) {
      given += 1000
      yield new Uint8Array(1000)
    }
  }
  await assert.rejects(blobs.put(endless(), {}, 10_500), { code: 'TOO_LARGE' })
  assert.equal(given, 11_000)
})

test('a source that breaks in the middle leaves nothing', async (t) => {
  const path = folder(t)
  const blobs = await openIn(path)
  async function* broken(): AsyncIterable<Uint8Array> {
    yield hello
    assert.equal(leftovers(path).length, 1)
    throw new Error('cut')
  }
  await assert.rejects(blobs.put(broken(), {}, MAX), /cut/)
  assert.deepEqual([leftovers(path), named(path)], [[], []])
})

test('the same bytes are stored once, however many send them at a time, and sending them again makes them young', async (t) => {
  const path = folder(t)
  const blobs = await openIn(path)
  const all = await Promise.all(Array.from({ length: 8 }, () => keep(blobs, hello)))
  assert.equal(new Set(all).size, 1)
  assert.equal(named(path).length, 1)
  utimesSync(pathOf(path, all[0]!), 1, 1)
  await keep(blobs, hello)
  const [stored] = await blobs.list(null, 10)
  assert.ok(Date.now() - stored!.at < 60_000)
  assert.deepEqual(leftovers(path), [])
})

test('bytes whose file lost a part are replaced when they are sent again', async (t) => {
  const path = folder(t)
  const blobs = await openIn(path)
  const checksum = await keep(blobs, hello)
  writeFileSync(pathOf(path, checksum), 'hel')
  await keep(blobs, hello)
  assert.equal(String(await readAll(await blobs.open(checksum))), 'hello world')
})

test('bytes whose file was changed at the same size are replaced when they are sent again', async (t) => {
  const path = folder(t)
  const blobs = await openIn(path)
  const bytes = randomBytes(5_000)
  const checksum = await keep(blobs, bytes)
  writeFileSync(pathOf(path, checksum), randomBytes(5_000))
  await keep(blobs, bytes)
  assert.ok((await readAll(await blobs.open(checksum))).equals(bytes))
})

/** Files of this folder that this process has open. */
const openFiles = (path: string): string[] =>
  readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`)
      return target.startsWith(path) ? [target] : []
    } catch {
      return [] // the descriptor that lists the folder itself
    }
  })

test('a reader that is gone before it has read anything leaves no open file', async (t) => {
  const path = folder(t)
  const blobs = await openIn(path)
  const checksum = await keep(blobs, randomBytes(600_000))
  const readers = await Promise.all(Array.from({ length: 5 }, async () => (await blobs.open(checksum)) as Readable))
  for (const reader of readers) reader.destroy()
  await until(() => openFiles(path).length === 0)
  // Nothing is there for a part of bytes that another reader has set aside meanwhile.
  const changed = await keep(blobs, randomBytes(600_000))
  writeFileSync(pathOf(path, changed), randomBytes(600_000))
  const parts = await Promise.allSettled([1, 2, 3].map(() => blobs.open(changed, { first: 0, last: 9 })))
  assert.ok(parts.every((part) => part.status === 'rejected' || part.value === null))
  await until(() => openFiles(path).length === 0)
})

test('the list goes through all bytes in slices and past whatever else lies there', async (t) => {
  const path = folder(t)
  const blobs = await openIn(path)
  const kept = await Promise.all(Array.from({ length: 25 }, (_, i) => keep(blobs, Buffer.from(String(i)))))
  writeFileSync(join(path, 'notes.txt'), 'mine')
  mkdirSync(join(path, 'zz'))
  const listed: string[] = []
  for (let after: string | null = null; ;) {
    const slice: Awaited<ReturnType<Blobs['list']>> = await blobs.list(after, 7)
    listed.push(...slice.map(({ checksum }) => checksum))
    if (slice.length < 7) break
    after = slice.at(-1)!.checksum
  }
  assert.deepEqual(listed, kept.toSorted())
})

test('pinned and used bytes stay, and all others are removed', async (t) => {
  const blobs = await openIn(folder(t))
  const held = await blobs.put(portions(hello), {}, MAX)
  assert.equal(await blobs.remove(held.checksum, () => Promise.resolve(true)), false)
  held.release()
  assert.equal(await blobs.remove(held.checksum, () => Promise.resolve(false)), false)
  assert.equal(await blobs.size(held.checksum), 11)
  assert.equal(await blobs.remove(held.checksum, () => Promise.resolve(true)), true)
  assert.equal(await blobs.size(held.checksum), null)
})

test('bytes that are sent while they are being removed are there afterwards', async (t) => {
  const blobs = await openIn(folder(t))
  const checksum = await keep(blobs, hello)
  const asked = Promise.withResolvers<boolean>()
  const removing = blobs.remove(checksum, () => asked.promise)
  let settled = false
  const putting = blobs.put(portions(hello), {}, MAX).then((held) => {
    settled = true
    return held
  })
  await new Promise((done) => setTimeout(done, 50))
  assert.equal(settled, false, 'who sends them waits until it is known whether they stay')
  asked.resolve(true)
  assert.equal(await removing, true)
  await putting
  assert.equal(String(await readAll(await blobs.open(checksum))), 'hello world')
})

test('a reader reads to the end, also when the bytes are removed under it', async (t) => {
  const blobs = await openIn(folder(t))
  const bytes = randomBytes(900_000)
  const checksum = await keep(blobs, bytes)
  const reading = await blobs.open(checksum)
  await blobs.remove(checksum, () => Promise.resolve(true))
  assert.ok((await readAll(reading)).equals(bytes))
})

test('discarded bytes are removed immediately, unless they existed before or another upload sent them too', async (t) => {
  const blobs = await openIn(folder(t))
  const first = await blobs.put(portions(hello), {}, MAX)
  const second = await blobs.put(portions(hello), {}, MAX)
  second.release()
  await first.discard()
  assert.equal(await blobs.size(first.checksum), 11, 'the second sender counts on them')
  await (await blobs.put(portions(hello), {}, MAX)).discard()
  assert.equal(await blobs.size(first.checksum), 11, 'they were there before')
  const alone = await blobs.put(portions(Buffer.from('alone')), {}, MAX)
  await alone.discard()
  assert.equal(await blobs.size(alone.checksum), null)
})

test('the next start sweeps the remains of an interrupted upload and nothing else', async (t) => {
  const path = folder(t)
  const checksum = await keep(await openIn(path), hello)
  writeFileSync(join(path, 'incoming', 'abc'), 'half of somet')
  const blobs = await openIn(path)
  assert.deepEqual(leftovers(path), [])
  assert.equal(await blobs.size(checksum), 11)
})

// --- A disk that fills up ----------------------------------------------------------------------------------------------------

/** A file system of 256 KiB, where this user may mount one. */
function smallDisk(t: TestContext): string | null {
  const path = mkdtempSync(join(tmpdir(), 'countersign-small-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', path]).status === 0
  t.after(() => {
    if (mounted) spawnSync('umount', [path])
    rmdirSync(path)
  })
  return mounted ? path : null
}

test('a disk that fills up during an upload refuses it, keeps nothing of it, and resumes when there is room', async (t) => {
  const path = smallDisk(t)
  // Without the right to mount, the test below meets the same code through another limit of the system.
  if (path === null) return t.diagnostic('this user may not mount a file system')
  const blobs = await openIn(path)
  const kept = await keep(blobs, randomBytes(100_000))
  await assert.rejects(blobs.put(portions(randomBytes(400_000)), {}, MAX), { code: 'UNAVAILABLE' })
  assert.deepEqual([leftovers(path), named(path)], [[], [pathOf(path, kept)]])
  assert.equal((await readAll(await blobs.open(kept))).length, 100_000)
  await blobs.remove(kept, () => Promise.resolve(true))
  await keep(blobs, randomBytes(200_000))
})

const script = (path: string, body: string): string => `
  import { openBlobs } from '#stores/blobs/index.ts'
  const blobs = await openBlobs(${JSON.stringify(path)}, { fatal: (error) => { throw error } })
  async function* portions(bytes, count, wait = 0) { for (let i = 0; i < count; i++) { yield bytes; if (wait) await new Promise((done) => setTimeout(done, wait)) } }
  ${body}`
const inRepository = { cwd: new URL('../..', import.meta.url).pathname }

test('a file that may not grow further refuses, and keeps nothing of it', (t) => {
  const path = folder(t)
  const body = `
    const held = await blobs.put(portions(new Uint8Array(1000), 10), {}, 1e9)
    console.log('small', held.size)
    await blobs.put(portions(new Uint8Array(1000), 10_000), {}, 1e9).catch((error) => console.log('large', error.code))`
  // The limit counts in blocks of 512 or 1024 bytes: one MiB at most.
  const { stdout, stderr } = spawnSync(
    'sh',
    ['-c', 'ulimit -f 1000; exec "$0" --input-type=module -e "$1"', process.execPath, script(path, body)],
    { ...inRepository, encoding: 'utf8' },
  )
  assert.equal(stdout, 'small 10000\nlarge UNAVAILABLE\n', stderr)
  assert.deepEqual(leftovers(path), [])
  assert.equal(named(path).length, 1)
})

// --- kill -9 -----------------------------------------------------------------------------------------------------------------

test('after kill -9 every acknowledged blob is there, every name tells the truth, and leftovers are swept', async (t) => {
  const path = folder(t)
  const body = `
    const slow = blobs.put(portions(new Uint8Array(100), 1e6, 1), {}, 1e9)
    for (let i = 0; ; i++) {
      const bytes = Buffer.from(\`\${process.pid} \${i} \`.repeat(500 + (i % 50) * 100))
      const held = await blobs.put(portions(bytes, 3), {}, 1e9)
      process.stdout.write(held.checksum + '\\n')
    }`
  let acknowledged = 0
  for (let round = 0; round < 4; round++) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', script(path, body)], {
      ...inRepository,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let text = ''
    const began = new Promise<void>((done) => child.stdout.on('data', (chunk) => ((text += String(chunk)), done())))
    await began
    await new Promise((done) => setTimeout(done, 20 + round * 37))
    child.kill('SIGKILL')
    await new Promise((done) => child.once('close', done))
    assert.ok(leftovers(path).length > 0, 'an upload was under way')
    const blobs = await openIn(path)
    assert.deepEqual(leftovers(path), [])
    for (const checksum of text.slice(0, text.lastIndexOf('\n')).split('\n')) {
      assert.ok(existsSync(pathOf(path, checksum)), `${checksum} was acknowledged`)
      acknowledged++
    }
    for (const { checksum } of await blobs.list(null, 100_000)) assert.equal(checksumOf(readFileSync(pathOf(path, checksum))), checksum)
  }
  assert.ok(acknowledged >= 4, `${acknowledged} were acknowledged`)
})

test('uploads leave a floor of free space, together as well, and what is refused leaves nothing behind', async (t) => {
  const path = folder(t)
  let free = 1_500
  const blobs = await openBlobs(path, {
    fatal: (error) => assert.fail(String(error)),
    floorBytes: 1_000,
    free: () => Promise.resolve(free),
  })
  const put = (size: number) => blobs.put(portions(randomBytes(size)), { size }, MAX)
  await assert.rejects(put(501), (refusal: Refusal) => {
    assert.equal(refusal.code, 'QUOTA_EXCEEDED')
    assert.match(refusal.message, /no room for 501 more bytes: uploads leave 1000 bytes free \(--disk-floor\)/)
    return true
  })
  // Of unannounced bytes the largest number is expected.
  await assert.rejects(blobs.put(portions(randomBytes(1)), {}, MAX), { code: 'QUOTA_EXCEEDED' })
  assert.deepEqual(readdirSync(join(path, 'incoming')), [])
  const gate = Promise.withResolvers<void>()
  const slow = blobs.put(
    (async function* () {
      await gate.promise
      yield randomBytes(300)
    })(),
    { size: 300 },
    MAX,
  )
  await assert.rejects(put(300), { code: 'QUOTA_EXCEEDED' })
  gate.resolve()
  ;(await slow).release()
  ;(await put(300)).release()
  free = 1_000
  await assert.rejects(put(1), { code: 'QUOTA_EXCEEDED' })
})
