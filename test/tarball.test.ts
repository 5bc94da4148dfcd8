// The package as others get it: packed, installed into an empty folder with an empty cache, and used from there.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { version } from '#apps/version.ts'
import { javascriptOf, manifestOf, pack } from '../scripts/pack.ts'
import { root, temporary } from './support/cli.ts'

const folder = temporary('tarball')
const home = join(folder, 'home')
const place = join(folder, 'place')
const packed = join(place, 'node_modules', 'countersign')
after(() => rmSync(folder, { recursive: true, force: true }))

/** Below the time that a test has, so that the reason is told. */
const RUN_MS_MAX = 90_000

type Ran = { readonly code: number | null; readonly out: string; readonly err: string }
let env: Record<string, string> = {}
let tarball = ''

function start(command: string, args: readonly string[], cwd: string): { child: ChildProcess; said: { out: string; err: string } } {
  // In a group of its own, so that what npx has started ends with it.
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (part: string) => (said.out += part))
  child.stderr.setEncoding('utf8').on('data', (part: string) => (said.err += part))
  return { child, said }
}

async function run(command: string, args: readonly string[], cwd = place): Promise<Ran> {
  const { child, said } = start(command, args, cwd)
  const late = setTimeout(() => process.kill(-child.pid!, 'SIGKILL'), RUN_MS_MAX)
  const [code] = (await once(child, 'close')) as [number | null]
  clearTimeout(late)
  return { code, ...said }
}

before(async () => {
  for (const path of [home, place]) mkdirSync(path)
  const isOurs = (name: string): boolean =>
    /^COUNTERSIGN_|^NODE_(?!EXTRA_CA_CERTS)/.test(name) ||
    /^npm_(?!config_(https?_)?(registry|proxy|noproxy|cafile|strict_ssl)$)/i.test(name)
  env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !isOurs(name))) as Record<string, string>
  // Where packages come from is the machine's business; everything else of the user's is left behind.
  const registry = (await run('npm', ['config', 'get', 'registry'], root)).out.trim()
  const path = [dirname(process.execPath), process.env['PATH']].join(delimiter)
  Object.assign(env, {
    HOME: home,
    PATH: path,
    npm_config_registry: registry,
    npm_config_cache: join(home, 'cache'),
    npm_config_update_notifier: 'false',
  })
  writeFileSync(join(place, 'package.json'), '{ "private": true }\n')
  tarball = pack(folder)
  const { code, err } = await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', tarball])
  assert.equal(code, 0, err)
})

describe('the tarball', () => {
  test('holds JavaScript and declarations, and nothing of how it is developed', () => {
    const files = globSync('**/*', { cwd: packed, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(packed.length + 1))
    assert.ok(files.length > 100, 'the files were found')
    const strange = files.filter(
      (file) => !/^(LICENSE|README\.md|CHANGELOG\.md|package\.json|bin\/countersign\.js|dist\/.*\.(js|d\.ts))$/.test(file),
    )
    assert.deepEqual(strange, [])
    for (const file of files.filter((name) => name.endsWith('.js') || name.endsWith('.d.ts'))) {
      assert.doesNotMatch(readFileSync(join(packed, file), 'utf8'), /(from|import\()\s*['"]\.[^'"]*\.ts['"]/, file)
    }
    const manifest = JSON.parse(readFileSync(join(packed, 'package.json'), 'utf8')) as Record<string, unknown>
    for (const field of ['scripts', 'devDependencies', 'optionalDependencies', 'private']) assert.equal(manifest[field], undefined, field)
  })

  test('`npx countersign` runs from it', async () => {
    assert.deepEqual(await run('npx', ['countersign', '--version']), { code: 0, out: `${version}\n`, err: '' })
    const wrong = await run('npx', ['countersign', 'tsak'])
    assert.equal(wrong.code, 2)
    assert.match(wrong.err, /Did you mean task\?/)
  })

  test('`npx countersign up` starts a server, the doctor finds it well, and a task can be made', async () => {
    const { child, said } = start('npx', ['countersign', 'up', '--port', '0', '--log', 'error'], place)
    try {
      const { promise, resolve, reject } = Promise.withResolvers<string>()
      child.stdout!.on('data', () => {
        const url = /^countersign ready (\S+)$/m.exec(said.out)?.[1]
        if (url !== undefined) resolve(url)
      })
      child.on('exit', () => reject(new Error(`it did not start: ${said.out}${said.err}`)))
      const url = await promise
      const doctor = await run('npx', ['countersign', 'doctor', '--url', url])
      assert.equal(doctor.code, 0, doctor.out + doctor.err)
      assert.deepEqual(doctor.out.match(/^. \S+/gm), [
        '✔ node',
        '✔ data',
        '✔ admin.key',
        '✔ keys',
        '✔ database',
        '✔ record',
        '✔ clock',
        '✔ disk',
        '✔ server',
        '✔ key',
      ])
      const script = `import { createClient } from 'countersign'
        const client = createClient({ url: ${JSON.stringify(url)}, key: process.argv[1] })
        console.log((await client.identity.me.get()).id)
        await client.close()`
      const key = readFileSync(join(place, 'data', 'admin.key'), 'utf8').trim()
      const asked = await run(process.execPath, ['--input-type=module', '-e', script, key])
      assert.deepEqual(asked, { code: 0, out: 'service_admin\n', err: '' })
    } finally {
      process.kill(-child.pid!, 'SIGTERM')
      if (child.exitCode === null) await once(child, 'exit')
    }
  })

  test('`npm i -g` installs the command for everybody', async () => {
    const prefix = join(folder, 'global')
    const { code, err } = await run('npm', ['i', '-g', '--prefix', prefix, '--no-audit', '--no-fund', '--ignore-scripts', tarball])
    assert.equal(code, 0, err)
    assert.deepEqual(await run(join(prefix, 'bin', 'countersign'), ['--version']), { code: 0, out: `${version}\n`, err: '' })
  })

  test('TypeScript knows what the SDK answers', async () => {
    const good =
      "import { createClient } from 'countersign'\nconst client = createClient({ url: 'http://127.0.0.1', key: '' })\nexport const id: string = (await client.collaboration.task.get({ task_id: 'task_1' })).task.id\n"
    writeFileSync(join(place, 'good.mts'), good)
    writeFileSync(join(place, 'bad.mts'), good.replace('id: string', 'id: number'))
    const tsc = (file: string): Promise<Ran> =>
      run(join(root, 'node_modules', '.bin', 'tsc'), [
        '--noEmit',
        '--strict',
        '--skipLibCheck',
        '--module',
        'nodenext',
        '--target',
        'esnext',
        '--types',
        '',
        file,
      ])
    assert.deepEqual(await tsc('good.mts'), { code: 0, out: '', err: '' })
    assert.match((await tsc('bad.mts')).out, /Type 'string' is not assignable to type 'number'/)
  })
})

test('the types of the SDK are cheap: an agent is checked without skipLibCheck, and without reading the server', async () => {
  const agent = `import { createClient, type Output } from 'countersign'
import { serve } from 'countersign/agent'
serve<{ goal: string }>('agent_greeter', async (run) => {
  const { result } = await run.ask.decide(run.input.goal, ['english', 'french'])
  await run.commit(result === 'french' ? 'Bonjour !' : 'Hello!')
})
const client = createClient({ url: 'http://127.0.0.1', key: '' })
export const task: Output<'collaboration/task.get'>['task'] = (await client.collaboration.task.get({ task_id: 'task_1' })).task
export const state: 'blocked' | 'completed' | string = task.state
`
  writeFileSync(join(place, 'agent.mts'), agent)
  const flags = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'esnext',
    '--lib',
    'esnext,dom',
    '--types',
    '',
    '--extendedDiagnostics',
  ]
  const { code, out } = await run(join(root, 'node_modules', '.bin', 'tsc'), [...flags, 'agent.mts'])
  assert.equal(code, 0, out)
  const figure = (name: string): number => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(out)?.[1])
  // With the schemas of the server it was 428,000 types.
  assert.ok(figure('Types') > 0 && figure('Types') < 60_000, out)
  assert.ok(figure('Files') < 200, out)
})

describe('packing', () => {
  test('blanks types out and renames imports, and nothing else', () => {
    const typescript =
      "import { a, type B } from './a.ts'\nimport type { C } from '../c.ts'\nconst text: string = 'from ./x.ts'\nawait import('../b.ts')\nexport { d } from '#kernel/d.ts'\n"
    assert.equal(
      javascriptOf(typescript).replaceAll(/ +/g, ' '),
      "import { a, } from './a.js'\n \nconst text = 'from ./x.ts'\nawait import('../b.js')\nexport { d } from '#kernel/d.ts'\n",
    )
  })

  test('points everything at what was built', () => {
    const made = manifestOf({
      name: 'x',
      private: true,
      scripts: {},
      bin: { x: 'bin/x.js' },
      exports: { '.': './src/sdk/index.ts' },
      imports: { '#kernel/*.ts': './src/kernel/*.ts', '#test/*.ts': './test/*.ts' },
    })
    assert.deepEqual(made['exports'], { '.': { types: './dist/sdk/index.d.ts', default: './dist/sdk/index.js' } })
    assert.deepEqual(made['imports'], { '#kernel/*.ts': { types: './dist/kernel/*.d.ts', default: './dist/kernel/*.js' } })
    assert.deepEqual([made['private'], made['scripts']], [undefined, undefined])
  })
})
