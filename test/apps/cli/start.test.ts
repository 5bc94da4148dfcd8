// The modules that a command loads before it does anything: commands are short, and most of their time goes into reading modules.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { root, temporary } from '../../support/as-processes/cli.ts'

const folder = temporary('cli-start')
after(() => rmSync(folder, { recursive: true, force: true }))

/** Tells, when the process ends, every file that it has loaded. */
const HOOK = `import { registerHooks } from 'node:module'
import { writeFileSync } from 'node:fs'
const loaded = []
registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) })
process.on('exit', () => writeFileSync(process.env.LOADED, loaded.join('\\n')))
`

test('a command that asks a server loads no store, no contracts, no signatures and none of the builders of the schema library', () => {
  const [hook, list] = [join(folder, 'hook.mjs'), join(folder, 'loaded')]
  writeFileSync(hook, HOOK)
  const env = { PATH: process.env['PATH'], HOME: folder, LOADED: list }
  execFileSync(process.execPath, ['--import', hook, join(root, 'bin', 'countersign.js'), 'login', 'list'], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const loaded = readFileSync(list, 'utf8')
    .split('\n')
    .filter((url) => url.startsWith('file:'))
  assert.ok(
    loaded.some((url) => url.endsWith('/src/apps/cli/program.ts')),
    'the files were found',
  )
  assert.deepEqual(
    loaded.filter((url) =>
      /\/src\/(stores|contracts|bindings)\/|node_modules\/(jose|ws|pino|@clack)\/|typebox\/build\/(type|value)\//.test(url),
    ),
    [],
  )
  // There were 1,090; about 770 is what the operations, their events and their schemas need.
  assert.ok(loaded.length < 800, String(loaded.length))
})
