// docs/own-project.md and docs/python.md, word for word: the package is packed by a newcomer in a clone and used from a folder outside of it. The first `node` in
// their PATH is an old one, their cache of npm is empty.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { root, startUp, temporary, type Running } from '../support/as-processes/cli.ts'
import { cloneIn, foreignEnv, pathWithOldNode } from '../support/as-processes/clone.ts'
import { assertPrinted, blocksIn, openShell, type Shell } from '../support/as-processes/tour.ts'

type Page = {
  readonly path: string
  readonly folder: string
  readonly titles: readonly string[]
  readonly needsPython: (title: string) => boolean
}
const pages: readonly Page[] = [
  {
    path: 'docs/own-project.md',
    folder: 'my-project',
    titles: ['Pack', 'Install', 'TypeScript', 'JavaScript', 'Python'],
    needsPython: (title) => title === 'Python',
  },
  {
    path: 'docs/python.md',
    folder: 'painting',
    titles: ['Install', 'Operations', 'Questions', 'Agents', 'asyncio'],
    needsPython: () => true,
  },
]

const sectionsOf = ({ path }: Page) =>
  readFileSync(join(root, path), 'utf8')
    .split('\n## ')
    .slice(1)
    .map((section) => [section.split('\n', 1)[0]!, blocksIn(section)] as const)

const hasPython = (env: Record<string, string>): boolean => spawnSync('python3', ['-m', 'pip', '--version'], { env }).status === 0

for (const page of pages) {
  test(`${page.path} has a section for each way`, () => {
    assert.deepEqual(
      sectionsOf(page).map(([title, blocks]) => [title, blocks.length > 0]),
      page.titles.map((title) => [title, true]),
    )
  })

  describe(`${page.path} works word for word`, () => {
    const folder = temporary(page.folder)
    const home = join(folder, 'home')
    const project = join(home, page.folder)
    let env: Record<string, string> = {}
    let server: Running
    let shell: Shell

    before(async () => {
      mkdirSync(home)
      server = await startUp(join(folder, 'data'))
      const ours = { COUNTERSIGN_URL: server.url, COUNTERSIGN_DATA: server.data }
      env = { ...foreignEnv(home), PATH: pathWithOldNode(folder), ...ours }
      shell = openShell('sh', cloneIn(folder), env)
    })
    after(async () => {
      await shell?.close()
      await server?.stop()
      rmSync(folder, { recursive: true, force: true })
    })

    /** The shell has gone through all blocks so far: after one that failed, the others would only wait. */
    let isWell = true

    // Each block is a test, so that each has its time: packing and installing take long if the machine is busy.
    for (const [title, blocks] of sectionsOf(page)) {
      for (const [i, { language, text, prints }] of blocks.entries()) {
        const name = /^(?:\/\/|#) (\S+)$/m.exec(text)?.[1]
        test(`${title}, block ${i + 1}: ${name ?? text.split('\n', 1)[0]}`, async (t) => {
          // The only part that needs what this project does not bring along.
          if (page.needsPython(title) && !hasPython(env)) return t.skip('python3 with pip is not installed')
          assert.ok(isWell, 'a block before it failed')
          isWell = false
          if (language === 'sh') assertPrinted(await shell.run(text), prints ?? '')
          else writeFileSync(join(project, name!), text)
          isWell = true
        })
      }
    }

    if (page.folder === 'my-project')
      test('and the package is in the project', () => assert.ok(existsSync(join(project, 'node_modules', 'countersign', 'package.json'))))
  })
}
