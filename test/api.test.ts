// The committed description of the API is the one that the operations make.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { generated } from '../scripts/api.ts'
import { protocols } from '#protocols/index.ts'

const files = generated()

for (const [path, text] of Object.entries(files)) {
  test(`${path} is up to date`, () => {
    let committed = ''
    try {
      committed = readFileSync(join(import.meta.dirname, '..', path), 'utf8')
    } catch {
      // Said below, in one sentence.
    }
    assert.ok(committed === text, `${path} differs from what the operations make: run \`npm run docs:api\` and commit it`)
  })
}

type Node = { $ref?: string } & Record<string, unknown>
const openapi = JSON.parse(files['docs/api/openapi.json']!) as { paths: object; components: Record<string, object> } & Node

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

test('every command and query is described, and nothing else', () => {
  const served = protocols.flatMap(({ name, operations }) =>
    operations.filter(({ kind }) => kind !== 'stream').map((op) => `/v1/${name}/${op.name}`),
  )
  assert.deepEqual(Object.keys(openapi.paths).toSorted(), served.toSorted())
  for (const path of served) assert.ok(files['docs/api/operations.md']!.includes(`### ${path.slice('/v1/'.length)}\n`), path)
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
