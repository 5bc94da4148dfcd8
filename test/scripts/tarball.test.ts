// The package as others get it: packed, installed into an empty folder with an empty cache, and used from there.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { version } from '#apps/version.ts'
import { javascriptOf, manifestOf, pack } from '../../scripts/pack.ts'
import { root, temporary } from '../support/as-processes/cli.ts'
import { foreignEnv } from '../support/as-processes/clone.ts'

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

// A test, and not a step before them: packing takes longer than a run of tests may be silent, if the machine is busy.
test('it is packed, and installed into an empty folder', async () => {
  await setImmediate() // the run is told that this test has begun before the sources are read, which takes the process for itself
  for (const path of [home, place]) mkdirSync(path)
  env = { ...foreignEnv(home), PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter) }
  writeFileSync(join(place, 'package.json'), '{ "private": true }\n')
  tarball = await pack(folder)
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
      (file) =>
        !/^(LICENSE|README\.md|CHANGELOG\.md|package\.json|bin\/countersign\.js|dist\/.*\.(js|d\.ts)|dist\/web\/.*\.(css|html|svg|png|woff2|webmanifest|br|gz))$/.test(
          file,
        ),
    )
    assert.deepEqual(strange, [])
    // The page is built, and compressed beside each of its files; nothing of its sources and its packages is needed.
    for (const name of ['index.html', 'worker.js', 'manifest.webmanifest'])
      for (const coding of ['', '.br', '.gz']) assert.ok(files.includes(`dist/web/${name}${coding}`), name + coding)
    for (const name of ['react', 'react-dom', 'vite']) assert.ok(!existsSync(join(place, 'node_modules', name)), name)
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
      assert.match(await (await fetch(`${url}/inbox`)).text(), /assets\/page-/, 'the page is served')
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
        '✔ page',
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

  test('`npm i -g` installs the command for all users', async () => {
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

describe('the types of the SDK are cheap', () => {
  const agent = `import { createClient, type Client, type Output } from 'countersign'
import { serve } from 'countersign/agent'

type Goal = { goal: string }

serve<Goal>('agent_greeter', async (run) => {
  const { result } = await run.ask.decide(\`In which language? \${run.input.goal}\`, ['english', 'french'])
  await run.progress(\`Writing \${result}.\`, 50)
  const text = await run.memo('text', () => (result === 'french' ? 'Bonjour !' : 'Hello!'))
  await run.commit(text)
})

export async function stateOf(client: Client, task_id: string): Promise<string> {
  const { task } = await client.collaboration.task.get({ task_id })
  return task.state
}

const client = createClient({ url: 'http://127.0.0.1', key: '' })
export const state = await stateOf(client, 'task_1')
export type Task = Output<'collaboration/task.get'>['task']
`
  type Cost = { readonly types: number; readonly files: number; readonly seconds: number }

  async function costOf(file: string, flag: string): Promise<Cost> {
    const usual = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'esnext', '--lib', 'esnext,dom', '--types', '']
    // In one thread the figures are the same each time.
    const measured = [flag, '--singleThreaded', '--extendedDiagnostics', file]
    const { code, out } = await run(join(root, 'node_modules', '.bin', 'tsc'), [...usual, ...measured])
    assert.equal(code, 0, out)
    const figure = (name: string): number => {
      const [, found] = new RegExp(`^${name}: +([\\d.]+)`, 'm').exec(out) ?? []
      assert.ok(found, out)
      return Number(found)
    }
    return { types: figure('Types'), files: figure('Files'), seconds: figure('Total time') }
  }

  before(() => {
    writeFileSync(join(place, 'agent.mts'), agent)
    writeFileSync(join(place, 'empty.mts'), 'export {}\n')
  })

  test('an agent of 20 lines is checked with the declarations of the package in at most twice the time without them', async () => {
    assert.equal(agent.split('\n').length - 1, 20)
    // The best of several, in turn: what else the machine does meets both. TypeScript's own declarations cost every program the same.
    const best = { skipped: Infinity, checked: Infinity }
    for (let i = 0; i < 5; i++) {
      best.skipped = Math.min(best.skipped, (await costOf('agent.mts', '--skipLibCheck')).seconds)
      best.checked = Math.min(best.checked, (await costOf('agent.mts', '--skipDefaultLibCheck')).seconds)
    }
    assert.ok(best.checked <= 2 * best.skipped, JSON.stringify(best))
  })

  test('it adds little to an empty program, and does not read the server', async () => {
    const [own, empty] = [await costOf('agent.mts', '--strict'), await costOf('empty.mts', '--strict')]
    // With the schemas of the server it was 428,000 types in 584 files.
    assert.ok(own.types - empty.types < 10_000, JSON.stringify({ own, empty }))
    assert.ok(own.files - empty.files < 60, JSON.stringify({ own, empty }))
  })
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
