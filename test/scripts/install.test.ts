// Installation by the npm scripts, with a stand-in for npm: the server needs no development tools, and a running server keeps its packages.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { root, temporary } from '../support/as-processes/cli.ts'

/** Notes what it is asked for, and leaves a Node as the real packages do. */
const standIn = `
const { appendFileSync, mkdirSync, rmSync, writeFileSync } = require('node:fs')
const words = process.argv.slice(2)
appendFileSync('asked', words.join(' ') + '\\n')
if (process.env.NPM_SAYS) writeFileSync('said', process.env[process.env.NPM_SAYS])
if (process.env.NPM_FAILS) process.exit(1)
if (words[0] === 'ci') rmSync('node_modules', { recursive: true, force: true })
mkdirSync('node_modules/node-here/include/node', { recursive: true })
mkdirSync('node_modules/node-here/bin', { recursive: true })
writeFileSync('node_modules/node-here/bin/node', '#!/bin/sh\\necho v26.0.0\\n', { mode: 0o755 })
if (process.env.NPM_SECONDS) setTimeout(() => undefined, process.env.NPM_SECONDS * 1000)
`

type Ensured = { readonly code: number | null; readonly err: string; readonly asked: string[] }
type Clone = { readonly folder: string; ensure(parts: string[], env?: Record<string, string>): Ensured }

function clone(t: TestContext): Clone {
  const folder = temporary('install')
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'scripts'))
  cpSync(join(root, 'scripts', 'ensure'), join(folder, 'scripts', 'ensure'))
  writeFileSync(join(folder, 'package-lock.json'), '{}')
  writeFileSync(join(folder, 'npm-cli.js'), standIn)
  const npm = { npm_execpath: join(folder, 'npm-cli.js'), npm_node_execpath: process.execPath }
  return {
    folder,
    ensure(parts, env = {}) {
      rmSync(join(folder, 'asked'), { force: true })
      const options = { cwd: folder, env: { PATH: process.env['PATH'], ...npm, ...env }, encoding: 'utf8' } as const
      const { status, stderr } = spawnSync('sh', ['scripts/ensure', ...parts], options)
      const asked = existsSync(join(folder, 'asked')) ? readFileSync(join(folder, 'asked'), 'utf8').trim().split('\n') : []
      return { code: status, err: stderr, asked }
    },
  }
}

describe('the command in a clone', () => {
  const rows: readonly [message: string, argv: readonly string[], ran: string, env?: Record<string, string>][] = [
    ['up', ['up', '--port', '0'], 'scripts/web.ts bin/countersign.js'],
    ['up behind its folder', ['--data', 'x', 'up'], 'scripts/web.ts bin/countersign.js'],
    ['up without a page', ['up'], 'bin/countersign.js', { COUNTERSIGN_WEB: 'off' }],
    ['up in the program of an agent, where it is refused', ['up'], 'bin/countersign.js', { COUNTERSIGN_AGENT: 'agent_x' }],
    ['anything else', ['task', 'assign', 'up'], 'bin/countersign.js'],
  ]
  for (const [message, argv, expected, env = {}] of rows)
    test(`builds the page where ${message} ${expected.includes('web') ? 'needs it, as npm start does' : 'does not need it'}`, (t) => {
      const { folder, ensure } = clone(t)
      ensure(['page'])
      cpSync(join(root, 'bin'), join(folder, 'bin'), { recursive: true })
      writeFileSync(join(folder, 'node_modules/node-here/bin/node'), `#!/bin/sh\necho "$1" >>'${folder}/ran'\n`, { mode: 0o755 })
      const { status, stderr } = spawnSync('sh', [join(folder, 'bin/countersign'), ...argv], {
        env: { PATH: process.env['PATH'], ...env },
        encoding: 'utf8',
      })
      assert.deepEqual([status, stderr], [0, ''])
      const ran = readFileSync(join(folder, 'ran'), 'utf8').trim().split('\n').map((path) => path.split('/').slice(-2).join('/')) // prettier-ignore
      assert.equal(ran.join(' '), expected)
    })
})

describe('installing', () => {
  test('the server is installed without development tools, once', (t) => {
    const { folder, ensure } = clone(t)
    const { code, err, asked } = ensure([], { NODE_ENV: 'production' })
    assert.deepEqual([code, err], [0, 'countersign: installing what running needs (once)...\n'])
    assert.equal(asked.length, 1)
    assert.match(asked[0]!, /^ci --ignore-scripts --omit=dev --include=optional /)
    assert.ok(existsSync(join(folder, 'node_modules', '.bin', 'node')), 'its Node is there')
    assert.ok(!existsSync(join(folder, 'node_modules', 'node-here', 'include')), 'headers of C++ are not')
    assert.deepEqual(ensure([]), { code: 0, err: '', asked: [] })
  })

  test('the development tools are added to what a running server uses, once', (t) => {
    const { folder, ensure } = clone(t)
    ensure([])
    writeFileSync(join(folder, 'node_modules', 'in-use'), '')
    const { code, err, asked } = ensure(['all'])
    assert.deepEqual([code, err], [0, 'countersign: installing the development tools too (once)...\n'])
    assert.match(asked.join('\n'), /^install --no-save --ignore-scripts --include=dev --include=optional [^\n]*$/)
    assert.ok(existsSync(join(folder, 'node_modules', 'in-use')))
    for (const parts of [['all'], []]) assert.deepEqual(ensure(parts), { code: 0, err: '', asked: [] })
  })

  test('an empty folder is installed in one step, and another lock file installs again', (t) => {
    const { folder, ensure } = clone(t)
    assert.match(ensure(['all']).asked.join('\n'), /^ci --ignore-scripts --include=dev [^\n]*$/)
    assert.deepEqual(ensure([]), { code: 0, err: '', asked: [] })
    writeFileSync(join(folder, 'package-lock.json'), '{ }')
    assert.match(ensure([]).asked.join('\n'), /^ci --ignore-scripts --omit=dev [^\n]*$/)
  })

  test('development tools that cannot be had leave the server as it is', (t) => {
    const { ensure } = clone(t)
    ensure([])
    const { code, err } = ensure(['all'], { NPM_FAILS: '1' })
    assert.equal(code, 1)
    assert.match(err, /installing failed; the reason is above/)
    assert.deepEqual(ensure([]), { code: 0, err: '', asked: [] })
  })

  test('a Node that went missing is linked again, and nothing is forgotten', (t) => {
    const { folder, ensure } = clone(t)
    ensure(['all'])
    rmSync(join(folder, 'node_modules', '.bin', 'node'))
    for (const parts of [[], ['all']]) assert.deepEqual(ensure(parts), { code: 0, err: '', asked: [] })
  })

  test('the packages of the page are added by name, once, and `all` has them too', (t) => {
    const { folder, ensure } = clone(t)
    const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<string, object>
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ devDependencies }, null, 2))
    const { code, err, asked } = ensure(['page'])
    assert.deepEqual([code, err], [0, 'countersign: installing what running and the page need (once)...\n'])
    assert.match(asked.join('\n'), /^install --no-save --save-prod vite@\S+ @vitejs\/plugin-react@\S+ react@[^\n]* --omit=dev [^\n]*$/)
    for (const parts of [['page'], []]) assert.deepEqual(ensure(parts), { code: 0, err: '', asked: [] })
    assert.match(ensure(['all']).asked.join('\n'), /^install --no-save --ignore-scripts --include=dev /)
    assert.deepEqual(ensure(['page']), { code: 0, err: '', asked: [] })
  })

  test('npm trusts the certificates of the system on whichever Node it runs, unless its user says otherwise', (t) => {
    const { folder, ensure } = clone(t)
    const said = (env: Record<string, string> = {}): string => {
      rmSync(join(folder, 'node_modules'), { recursive: true, force: true })
      assert.equal(ensure([], { NPM_SAYS: 'NODE_USE_SYSTEM_CA', ...env }).code, 0)
      return readFileSync(join(folder, 'said'), 'utf8')
    }
    assert.deepEqual([said(), said({ NODE_USE_SYSTEM_CA: '0' })], ['1', '0'])
  })

  test('it says how far it is', (t) => {
    const { err } = clone(t).ensure([], { NPM_SECONDS: '5.5' })
    assert.match(err, /^countersign: installing .*\ncountersign: \d+ MB after 5 s\n$/)
  })
})

const IMPORTS = [
  /^(?:import|export) (?!type ).*?from '([^'.#/][^']*)'/gm,
  /^(?:import |\} from )'([^'.#/][^']*)'/gm,
  /\bimport\('([^'.#/][^']*)'\)/g,
  /(?:@import |url\()'([^'.#/:][^':]*)'/g,
]

/** The packages that files import, except for types. */
function importedBy(patterns: string[], exclude: string[] = []): string[] {
  const files = globSync(patterns, { cwd: root, exclude }).map((file) => readFileSync(join(root, file), 'utf8'))
  const paths = files.flatMap((text) => IMPORTS.flatMap((pattern) => [...text.matchAll(pattern)].map((found) => found[1]!)))
  const names = paths.filter((path) => !isBuiltin(path)).map((path) => /^(?:@[^/]+\/)?[^/]+/.exec(path)![0])
  return [...new Set(names)].toSorted()
}

test('the page is built with the packages that its source and its bundle import, and no others', (t) => {
  const { folder, ensure } = clone(t)
  const { dependencies, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<string, object>
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ devDependencies }, null, 2))
  const words = ensure(['page']).asked.join(' ').split(' ')
  const installed = words.flatMap((word) => /^(.+)@\d/.exec(word)?.[1] ?? [])
  const imported = importedBy(['src/web/**/*.{ts,tsx,css}', 'scripts/{web,web-bundle}.ts'])
  assert.deepEqual(
    installed.toSorted(),
    imported.filter((name) => !Object.hasOwn(dependencies!, name)),
  )
})

test('running needs the dependencies alone, and only what develops it asks for more', () => {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<
    'dependencies' | 'scripts',
    Record<string, string>
  >
  const imported = importedBy(['src/**/*.ts', 'bin/*.js'], ['src/web/**'])
  assert.ok(imported.length > 5, 'the imports were found')
  assert.deepEqual(
    imported.filter((name) => !Object.hasOwn(manifest.dependencies, name)),
    [],
  )
  const running = Object.entries(manifest.scripts).filter(([, command]) => !command.startsWith('sh scripts/ensure all && '))
  assert.deepEqual(running, [['start', 'sh scripts/ensure page && exec sh scripts/serve']])
})
