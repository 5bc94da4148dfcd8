// Answers to callers when the disk fails: a refusal that names the class of the failure, never an internal error.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Refusal } from '#kernel/declare/errors.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { isOutOfRoom, refusalOf } from '#stores/disk-errors.ts'

const systemError = (code: string, errno = 0): Error => Object.assign(new Error(code), { code, errno })

test('a quota that is exceeded is a lack of room, although Node has no name for it', () => {
  const { EDQUOT } = constants.errno
  const nameless = systemError('UNKNOWN', -EDQUOT)
  assert.ok(isOutOfRoom(nameless))
  assert.match((refusalOf(nameless) as Refusal).message, /^the disk has no room for these bytes$/)
})

test('every other failure has words of its own; what is no failure of the disk stays as it is', () => {
  for (const [code, message] of [
    ['EMFILE', /too many files open/],
    ['EACCES', /no permission to write/],
    ['EIO', /the disk failed/],
    ['EROFS', /no room/],
  ] as const) {
    const refusal = refusalOf(systemError(code)) as Refusal
    assert.ok(refusal instanceof Refusal, code)
    assert.equal(refusal.code, 'UNAVAILABLE')
    assert.match(refusal.message, message)
  }
  for (const error of [new TypeError('a bug'), new Refusal('TOO_LARGE', 'too large')]) assert.equal(refusalOf(error), error)
})

test('bytes whose folder is gone are refused', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'countersign-gone-'))
  t.after(() => rmSync(path, { recursive: true, force: true }))
  const blobs = await openBlobs(path, { fatal: assert.fail })
  rmSync(path, { recursive: true })
  const bytes = async function* (): AsyncGenerator<Uint8Array> {
    yield new Uint8Array(10)
  }
  await assert.rejects(blobs.put(bytes(), {}, 100), { code: 'UNAVAILABLE', message: 'the folder of bytes is gone' })
})
