// An exported record: whole, in order, and checked by a reader that shares no code with the server.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { scenes } from '#protocols/collaboration/examples.ts'
import { inProcess, temporary } from '../../support/as-processes/cli.ts'
import { createWorld, type World } from '../../support/in-process/world.ts'

async function exported(world: World): Promise<{ text: string; head: { seq: number; hash: string } }> {
  let text = ''
  for (let cursor: string | undefined; ;) {
    const page = await world.call('admin', 'collaboration/audit.export', cursor === undefined ? {} : { cursor })
    text += page.ndjson
    if (page.next_cursor === null) return { text, head: page.head }
    cursor = page.next_cursor
  }
}

/** By the words of docs/operating.md alone. */
function checkedByHand(text: string): { seq: number; hash: string } {
  const sha = (message: string): string => createHash('sha256').update(message).digest('base64url')
  let [seq, hash] = [0, '']
  for (const one of text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))) {
    assert.equal(sha(one.line), one.hash)
    const line = JSON.parse(one.line)
    assert.deepEqual([line.seq, line.prev], [seq + 1, hash])
    for (const [i, { digest, key, version }] of line.images.entries()) {
      const image = one.images[i]
      assert.deepEqual([image.key, image.version], [key, version])
      assert.equal(sha(image.salt + image.text), digest)
    }
    ;[seq, hash] = [line.seq, one.hash]
  }
  return { seq, hash }
}

test('an export is the whole record, and anybody can check it; audit verify --file finds every change', async (t) => {
  const world = await createWorld()
  t.after(() => world.close())
  for (let i = 0; i < 3; i++) await world.play(scenes.completed)
  const { text, head } = await exported(world)
  assert.deepEqual(checkedByHand(text), head)
  const home = temporary('export')
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const verified = async (name: string, content: string): Promise<{ code: number | null; out: string }> => {
    const file = join(home, `${name}.ndjson`)
    writeFileSync(file, content)
    const ran = await inProcess({ home }).run(['audit', 'verify', '--file', file])
    return { code: ran.code, out: ran.out }
  }
  const good = await verified('good', text)
  assert.deepEqual([good.code, new RegExp(`${head.seq} events in order`).test(good.out)], [0, true], good.out)
  const lines = text.trimEnd().split('\n')
  const bad: Record<string, string> = {
    'a changed word': text.replace('task.created', 'task.creates'),
    'a changed image': text.replace('user_alice', 'user_alicf'),
    'a missing event': [...lines.slice(0, 2), ...lines.slice(3)].join('\n'),
    'another order': [lines[1], lines[0], ...lines.slice(2)].join('\n'),
    'no event': 'hello\n',
    nothing: '',
  }
  for (const [name, content] of Object.entries(bad)) {
    const { code, out } = await verified('bad', content)
    assert.equal(code, 1, `${name}: ${out}`)
    assert.match(out, /✖/)
  }
  assert.equal((await inProcess({ home }).run(['audit', 'verify', '--file', join(home, 'none')])).code, 2)
})
