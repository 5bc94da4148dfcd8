// Serving the page: its headers, its hashed files, its own paths and no others, and how large the first load is.
import assert from 'node:assert/strict'
import fs, { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { tmpdir } from 'node:os'
import { isPagePath } from '#bindings/http/browser/page.ts'
import { buildWeb, place, sourceHash, STAMP } from '../../scripts/web.ts'
import { createCaller, spawnServer, startServer, type ServerProcess } from '../support/as-processes/server.ts'
import { openBrowser } from '../support/browser/chromium.ts'

const root = join(import.meta.dirname, '../..')
const built = join(root, 'dist/web')
let server: ServerProcess
let data: string
let url: string
before(async () => {
  await buildWeb()
  data = mkdtempSync(join(tmpdir(), 'serve-'))
  server = await startServer(data)
  url = `http://127.0.0.1:${server.port}`
})
after(async () => {
  await server?.end('SIGTERM')
  rmSync(data, { recursive: true, force: true })
})

const shellOf = (): string => readFileSync(join(built, 'index.html'), 'utf8')

describe('the shell', () => {
  test('has exactly the headers that keep it from being framed, scripted or followed', async () => {
    for (const path of ['/', '/inbox', '/inbox/hxp_1', '/tasks/new', '/reviews', '/settings/profile', '/insight']) {
      const answer = await fetch(url + path)
      assert.equal(answer.status, 200, path)
      assert.equal(
        answer.headers.get('content-security-policy'),
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; " +
          "worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
      )
      assert.equal(answer.headers.get('x-frame-options'), 'DENY')
      assert.equal(answer.headers.get('cross-origin-opener-policy'), 'same-origin')
      assert.equal(answer.headers.get('cross-origin-resource-policy'), 'same-origin')
      assert.equal(answer.headers.get('x-content-type-options'), 'nosniff')
      assert.equal(answer.headers.get('referrer-policy'), 'no-referrer')
      assert.match(answer.headers.get('permissions-policy')!, /camera=\(\)/)
      assert.equal(answer.headers.get('cache-control'), 'no-cache')
      assert.equal(await answer.text(), shellOf())
    }
  })

  test('is nowhere else: what the API does not have is still a 404 in JSON', async () => {
    for (const path of [
      '/v1/nothing',
      '/inbox/a/b',
      '/nothing',
      '/index.html',
      '/install.html',
      '/assets/none.js',
      '/../package.json',
      '/.made-of',
    ]) {
      const answer = await fetch(url + path)
      assert.equal(answer.status, 404, path)
      assert.match(answer.headers.get('content-type')!, /^application\/json/)
      assert.equal(((await answer.json()) as any).error.code, 'NOT_FOUND')
    }
    assert.equal(
      (await fetch(`${url}/inbox`, { method: 'POST', body: '{}' })).headers.get('content-type'),
      'application/json; charset=utf-8',
    )
  })

  test('its files have hashed names, never change, and come compressed', async () => {
    const [, script] = /src="(\/assets\/page-[^"]+\.js)"/.exec(shellOf())!
    for (const coding of ['br', 'gzip']) {
      const answer = await fetch(url + script, { headers: { 'accept-encoding': coding } })
      assert.equal(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable')
      assert.equal(answer.headers.get('content-encoding'), coding)
      assert.equal(await answer.text(), readFileSync(join(built, script!), 'utf8'))
    }
    assert.equal((await fetch(`${url}/manifest.webmanifest`)).headers.get('content-type'), 'application/manifest+json')
    assert.equal((await fetch(`${url}/worker.js`)).headers.get('cache-control'), 'no-cache')
  })

  test('the document that sets a device up is the only one without trusted types', async () => {
    const policy = (await fetch(`${url}/install`)).headers.get('content-security-policy')!
    assert.ok(!policy.includes('trusted-types'))
    assert.ok(policy.includes("frame-ancestors 'none'"))
  })
})

test('the page tells its own paths from others without a server', () => {
  assert.ok(isPagePath('/settings/keys') && !isPagePath('/settings/keys/more') && !isPagePath('/health'))
})

describe('the build', () => {
  test('the script of the first load is below 200 kB gzipped, and each further page is a chunk', () => {
    const names = [...shellOf().matchAll(/(?:src|href)="\/(assets\/[^"]+\.js)"/g)].map(([, name]) => name!)
    const bytes = names.reduce((sum, name) => sum + readFileSync(join(built, `${name}.gz`)).length, 0)
    assert.ok(bytes > 50_000 && bytes < 200_000, `${bytes} bytes`)
    assert.ok(readdirSync(join(built, 'assets')).filter((name) => name.endsWith('.js')).length > 10)
  })
  test('the page is not rebuilt while nothing has changed', async () => {
    assert.equal(await buildWeb(), 'current')
    assert.match(sourceHash(), /^[0-9a-f]{64}$/)
    assert.ok(existsSync(join(built, 'worker.js.br')))
  })
  test('the same build, finished by another process in the meantime, stays', (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'place-'))
    const [target, fresh] = [join(folder, 'web'), join(folder, 'fresh')]
    const build = (path: string, by: string): void => {
      mkdirSync(path)
      writeFileSync(join(path, STAMP), 'hash')
      writeFileSync(join(path, 'by'), by)
    }
    build(fresh, 'this one')
    // The other process puts its build in place between the removal of the old one and the rename.
    const remove = t.mock.method(fs, 'rmSync', () => build(target, 'the other'))
    syncBuiltinESMExports()
    try {
      place(fresh, target, 'hash')
    } finally {
      remove.mock.restore()
      syncBuiltinESMExports()
    }
    assert.equal(readFileSync(join(target, 'by'), 'utf8'), 'the other')
    place(fresh, target, 'hash')
    assert.equal(readFileSync(join(target, 'by'), 'utf8'), 'the other')
    writeFileSync(join(target, STAMP), 'an older one')
    place(fresh, target, 'hash')
    assert.equal(readFileSync(join(target, 'by'), 'utf8'), 'this one')
    rmSync(folder, { recursive: true })
  })
})

test('--web off keeps the plain pages', async () => {
  const own = mkdtempSync(join(tmpdir(), 'plain-'))
  const plain = await spawnServer([join(root, 'src/apps/server/main.ts'), '--web', 'off'], {
    COUNTERSIGN_DATA: own,
    COUNTERSIGN_PORT: '0',
    COUNTERSIGN_LOG: 'error',
  })
  try {
    const answer = await fetch(`http://127.0.0.1:${plain.port}/`)
    assert.match(await answer.text(), /You are not signed in/)
    assert.equal((await fetch(`http://127.0.0.1:${plain.port}/inbox`)).status, 404)
  } finally {
    await plain.end('SIGTERM')
    rmSync(own, { recursive: true, force: true })
  }
})

test('without the page, a browser signs in by a link and out by the button of the plain page', async (t) => {
  const other = mkdtempSync(join(tmpdir(), 'serve-'))
  t.after(() => rmSync(other, { recursive: true, force: true }))
  const main = join(root, 'src/apps/server/main.ts')
  const plain = await spawnServer([main, '--web', 'off', '--port', '0', '--data', other, '--log', 'error'])
  t.after(() => plain.end('SIGTERM'))
  const { call, close } = createCaller(plain.port)
  t.after(close)
  const admin = readFileSync(join(other, 'admin.key'), 'utf8').trim()
  const { body } = await call(admin, 'identity/login.issue', { user_id: 'user_owner' })
  const browser = await openBrowser()
  t.after(() => browser.close())
  const page = await browser.newPage()
  page.setDefaultTimeout(30_000)
  await page.goto(`http://127.0.0.1:${plain.port}/login?token=${body.token}`)
  await page.getByText('You are signed in as user_owner').waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You are not signed in').waitFor()
})
