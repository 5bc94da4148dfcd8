// The committed description of the API is the one that the operations make.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { generated } from '../../scripts/api.ts'
import { streamPaths } from '#apps/server/http.ts'
import { protocols } from '#protocols/index.ts'

const files = generated()

for (const [path, text] of Object.entries(files)) {
  test(`${path} is up to date`, () => {
    let committed = ''
    try {
      committed = readFileSync(join(import.meta.dirname, '../..', path), 'utf8')
    } catch {
      // Said below, in one sentence.
    }
    assert.ok(committed === text, `${path} differs from what the operations make: run \`npm run docs:api\` and commit it`)
  })
}

type Described = {
  operationId: string
  parameters: { name?: string; in?: string; required?: boolean; $ref?: string }[]
  responses: Record<string, { $ref?: string; content: Record<string, Record<string, Node>> }>
}
type Node = { $ref?: string } & Record<string, unknown>
const openapi = JSON.parse(files['docs/api/openapi.json']!) as {
  paths: Record<string, Record<string, Described>>
  components: Record<string, object>
} & Node

test('every reference in the description leads somewhere', () => {
  const refs: string[] = []
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return
    if (typeof (node as Node).$ref === 'string') refs.push((node as Node).$ref!)
    for (const inner of Object.values(node)) visit(inner)
  }
  visit(openapi)
  assert.ok(refs.length > 0)
  for (const ref of refs) {
    const found = ref
      .slice(2)
      .split('/')
      .reduce<unknown>((node, step) => (node as Record<string, unknown> | undefined)?.[step], openapi)
    assert.ok(found, `${ref} leads nowhere`)
  }
})

test('every operation is described by its methods, every further path of a stream too, and nothing else', () => {
  const operations = protocols.flatMap(({ name, operations: own }) => own.map((op) => ({ op, path: `/v1/${name}/${op.name}` })))
  const served = operations.map(({ path }) => path)
  assert.deepEqual(Object.keys(openapi.paths).toSorted(), [...served, ...Object.keys(streamPaths)].toSorted())
  for (const { op, path } of operations) {
    const carried =
      op.kind === 'stream'
        ? 'get'
        : op.kind === 'command' && op.upload
          ? 'put'
          : op.kind === 'query' && op.download
            ? 'post get head'
            : 'post'
    assert.equal(Object.keys(openapi.paths[path]!).join(' '), carried, path)
  }
  for (const path of served) assert.ok(files['docs/api/operations.md']!.includes(`### ${path.slice('/v1/'.length)}\n`), path)
})

test('a stream is described with what is sent, what comes and where to go on, also under its other path', () => {
  const [path, name] = Object.entries(streamPaths)[0]!
  const { get: own } = openapi.paths[`/v1/${name}`]!
  const { get: other } = openapi.paths[path]!
  assert.deepEqual(
    own!.parameters.map(({ name: field, in: place, required, $ref }) => $ref ?? `${field} ${place} ${required}`),
    [
      'task_id query false',
      'root_task_id query false',
      'project_id query false',
      'action query false',
      '#/components/parameters/After',
      '#/components/parameters/LastEventId',
    ],
  )
  const data = own!.responses['200']!.content['text/event-stream']!['x-event-data']!
  assert.deepEqual(Object.keys(data['properties'] as object), ['event'])
  assert.equal(own!.responses['401']!.$ref, '#/components/responses/unauthenticated')
  assert.deepEqual({ ...other, operationId: '' }, { ...own, operationId: '' })
})

test('every operation has an id of its own', () => {
  const ids = Object.values(openapi.paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId))
  assert.deepEqual(
    ids.filter((id, i) => ids.indexOf(id) !== i),
    [],
  )
})

test('every link in the list of operations has its heading', () => {
  const text = files['docs/api/operations.md']!
  const anchors = new Set(
    [...text.matchAll(/^#{2,3} (.+)$/gm)].map(([, heading]) =>
      heading!
        .toLowerCase()
        .replace(/[^a-z0-9_ -]/g, '')
        .replaceAll(' ', '-'),
    ),
  )
  for (const [, anchor] of text.matchAll(/\]\(#([^)]+)\)/g)) assert.ok(anchors.has(anchor!), `#${anchor}`)
})
