// The files of deploy/: they parse, they name only what exists, and their own tools accept them, if these are installed.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { createDatabaseFigures, nodeLines } from '#apps/server/database/figures.ts'
import { settings } from '#apps/server/settings/settings.ts'
import { ALONE } from '#workers/leases.ts'
import { root, startUp, temporary } from '../support/as-processes/cli.ts'

const folder = join(root, 'deploy')
const textOf = (path: string): string => readFileSync(join(folder, path), 'utf8')
const scratch = temporary('deploy')
after(() => rmSync(scratch, { recursive: true, force: true }))

const hasProgram = (name: string): boolean => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0
const run = (command: string, args: readonly string[]) => {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8', cwd: root })
  return { status, output: stdout + stderr }
}

const namesIn = (text: string): Set<string> =>
  new Set(
    [...text.matchAll(/\b((?:countersign|process)_[a-z0-9_]+)\b/g)]
      .map(([, name]) => name!.replace(/_(bucket|sum|count)$/, ''))
      .filter((name) => name !== 'countersign_'),
  )

describe('alerts and dashboard', () => {
  test('name only metrics that a server has', async () => {
    const server = await startUp(join(scratch, 'data'))
    try {
      const key = readFileSync(join(server.data, 'admin.key'), 'utf8').trim()
      const metrics = await (await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${key}` } })).text()
      const shared = [...createDatabaseFigures().lines(0), ...nodeLines('a', { names: ['timers'], duty: () => ALONE })].join('\n')
      const known = new Set([...`${metrics}\n${shared}`.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name!))
      for (const file of ['prometheus/alerts.yml', 'prometheus/alerts.test.yml', 'grafana/countersign.json'])
        assert.deepEqual(
          [...namesIn(textOf(file))].filter((name) => !known.has(name)),
          [],
          file,
        )
    } finally {
      await server.stop()
    }
  })

  test('each alert is tested and explained', () => {
    const alerts = [...textOf('prometheus/alerts.yml').matchAll(/alert: (\w+)/g)].map(([, name]) => name!)
    assert.equal(alerts.length, 10)
    const page = readFileSync(join(root, 'docs/deploy.md'), 'utf8')
    for (const name of alerts) {
      assert.ok(textOf('prometheus/alerts.test.yml').includes(`alertname: ${name}`), `${name} has a test`)
      assert.ok(page.includes(name), `${name} is explained`)
    }
  })

  test('promtool accepts the alerts and their tests', (t) => {
    if (!hasProgram('promtool')) return t.skip('promtool is not installed (Debian: prometheus)')
    const checked = run('promtool', ['check', 'rules', 'deploy/prometheus/alerts.yml'])
    assert.equal(checked.status, 0, checked.output)
    const tested = run('promtool', ['test', 'rules', 'deploy/prometheus/alerts.test.yml'])
    assert.equal(tested.status, 0, tested.output)
  })
})

describe('manifests', () => {
  const files = globSync('**/*.{yaml,yml}', { cwd: folder })

  test('are YAML without repeated keys', () => {
    assert.ok(files.length > 6, 'the files were found')
    for (const file of files)
      for (const document of parseAllDocuments(textOf(file), { uniqueKeys: true, merge: true }))
        assert.deepEqual([...document.errors, ...document.warnings].map(String), [], file)
  })

  test('set only variables that the server has', () => {
    const known = new Set(
      Object.entries(settings).flatMap(([name, { env }]) => [env ?? `COUNTERSIGN_${name.toUpperCase().replaceAll('-', '_')}`]),
    )
    for (const file of [...files, 'Dockerfile', 'systemd/countersign.service'])
      for (const [, name] of textOf(file).matchAll(/\b(COUNTERSIGN_[A-Z_]+)\b/g))
        assert.ok(known.has(name!) || known.has(name!.replace(/_FILE$/, '')), `${file}: ${name}`)
  })

  test('the kustomization lists every other file of its folder', () => {
    const { resources } = parseAllDocuments(textOf('kubernetes/kustomization.yaml'))[0]!.toJS() as { resources: string[] }
    const others = globSync('*.yaml', { cwd: join(folder, 'kubernetes') }).filter((file) => file !== 'kustomization.yaml')
    assert.deepEqual(resources.toSorted(), others.toSorted())
  })

  test('files that compose mounts exist', () => {
    for (const [, path] of textOf('compose.yaml').matchAll(/'(\.\/[^:']+):/g)) assert.ok(existsSync(join(folder, path!)), path!)
  })

  test('systemd accepts the unit', (t) => {
    if (!hasProgram('systemd-analyze')) return t.skip('systemd-analyze is not installed')
    const { status, output } = run('systemd-analyze', ['verify', '--man=no', 'deploy/systemd/countersign.service'])
    assert.equal(status, 0, output)
  })
})

describe('the image', () => {
  test('is built from files that exist, and from no others', () => {
    const kept = textOf('Dockerfile.dockerignore')
      .split('\n')
      .filter((line) => line.startsWith('!'))
    assert.ok(textOf('Dockerfile.dockerignore').startsWith('**\n'))
    for (const line of kept) assert.ok(existsSync(join(root, line.slice(1))), line)
  })

  test('has a user without rights, a health check and the stop signal of a server', () => {
    const last = textOf('Dockerfile')
      .split(/^FROM /m)
      .at(-1)!
    for (const line of ['USER 10001:10001', 'STOPSIGNAL SIGTERM', 'HEALTHCHECK ', 'VOLUME /data'])
      assert.ok(last.includes(`\n${line}`), line)
    assert.doesNotMatch(last, /\bnpm\b/)
  })
})

test('secrets are made once, and readable by their owner alone', () => {
  const to = join(scratch, 'secrets')
  const make = (): Record<string, string> => {
    const { status, output } = run(process.execPath, ['deploy/make-secrets.mjs', to])
    assert.equal(status, 0, output)
    return Object.fromEntries(globSync('*', { cwd: to }).map((name) => [name, readFileSync(join(to, name), 'utf8')]))
  }
  const first = make()
  assert.deepEqual(Object.keys(first).toSorted(), ['broker', 'broker-url', 'broker.conf', 'database', 'database-url', 'server'])
  assert.equal(Buffer.from(first['server']!, 'base64url').length, 32)
  assert.ok(first['database-url']!.includes(first['database']!))
  assert.equal(statSync(join(to, 'server')).mode & 0o777, 0o400)
  assert.deepEqual(make(), first)
})
