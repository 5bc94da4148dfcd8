// docs/own-project.md, word for word: the package is packed by a newcomer in a clone and used from a folder outside of it. The first `node` in
// their PATH is an old one, their cache of npm is empty.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { root, startUp, temporary, type Running } from '../support/as-processes/cli.ts'
import { cloneIn, foreignEnv, pathWithOldNode } from '../support/as-processes/clone.ts'
import { assertPrinted, blocksIn, openShell, type Shell } from '../support/as-processes/tour.ts'

const page = readFileSync(join(root, 'docs', 'own-project.md'), 'utf8')
const sections = page
  .split('\n## ')
  .slice(1)
  .map((section) => [section.split('\n', 1)[0]!, blocksIn(section)] as const)

const hasPython = (env: Record<string, string>): boolean => spawnSync('python3', ['--version'], { env }).status === 0

test('the page has a section for each way', () => {
  assert.deepEqual(
    sections.map(([title, blocks]) => [title, blocks.length > 0]),
    ['Pack', 'Install', 'TypeScript', 'JavaScript', 'Python'].map((title) => [title, true]),
  )
})

describe('docs/own-project.md works word for word', () => {
  const folder = temporary('own-project')
  const home = join(folder, 'home')
  const project = join(home, 'my-project')
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

  // Each block is a test, so that each has its time: packing and installing take long where the machine is busy.
  for (const [title, blocks] of sections) {
    for (const [i, { language, text, prints }] of blocks.entries()) {
      const name = /^(?:\/\/|#) (\S+)$/m.exec(text)?.[1]
      test(`${title}, block ${i + 1}: ${name ?? text.split('\n', 1)[0]}`, async (t) => {
        // The only part that needs what this project does not bring along.
        if (title === 'Python' && !hasPython(env)) return t.skip('there is no python3 here')
        assert.ok(isWell, 'a block before it failed')
        isWell = false
        if (language === 'sh') assertPrinted(await shell.run(text), prints!)
        else writeFileSync(join(project, name!), text)
        isWell = true
      })
    }
  }

  test('and the package is in the project', () => assert.ok(existsSync(join(project, 'node_modules', 'countersign', 'package.json'))))
})
