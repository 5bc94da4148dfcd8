// New documents outside of the heap: what can be read again, and what is dropped.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createNewDocuments } from '#kernel/log/cache/new-documents.ts'

const place = { scope: 'project_default', seq: 7, position: 9, hash: 'h'.repeat(43) }
const documentOf = (text: string) => ({ version: 1, value: null, text, image: 3, place, size: text.length })

test('a new document comes back once, byte for byte', () => {
  const documents = createNewDocuments(1_000)
  const added = documentOf('{"a":"Zoë 🙂\\n","b":" x "}')
  documents.add('k/1', added)
  documents.add('k/2', { ...added, place: null, version: 2 })
  assert.deepEqual(documents.take('k/1'), added)
  assert.equal(documents.take('k/1'), undefined)
  assert.deepEqual(documents.take('k/2'), { ...added, place: null, version: 2 })
})

test('a full buffer empties the older one, and only whole documents remain', () => {
  const documents = createNewDocuments(4_000)
  for (let i = 0; i < 100; i++) documents.add(`k/${i}`, documentOf(`{"n":${i}}`))
  const kept = Array.from({ length: 100 }, (_, i) => documents.take(`k/${i}`)?.text)
  const first = kept.findIndex((text) => text !== undefined)
  assert.ok(first > 0 && first < 100)
  for (const [i, text] of kept.entries()) assert.equal(text, i < first ? undefined : `{"n":${i}}`)
})

test('a deleted, replaced or oversized document does not come back', () => {
  const documents = createNewDocuments(2_000)
  documents.add('k/1', documentOf('{"n":1}'))
  documents.add('k/1', documentOf('{"n":2}'))
  assert.equal(documents.take('k/1')?.text, '{"n":2}')
  documents.add('k/2', documentOf('{}'))
  documents.delete('k/2')
  documents.add('k/3', documentOf('{}'))
  documents.add('k/3', documentOf('x'.repeat(500)))
  assert.deepEqual([documents.take('k/2'), documents.take('k/3')], [undefined, undefined])
  documents.add('k/4', documentOf('{}'))
  documents.clear()
  assert.equal(documents.take('k/4'), undefined)
})
