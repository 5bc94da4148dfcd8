// docs/config.md is true: its file, its commands and what they print, against a fresh server.
import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { configSchema } from '#apps/config-schema.ts'
import { inProcess, root, startUp, temporary } from '../../support/as-processes/cli.ts'
import { assertPrinted, blocksIn, openShell } from '../../support/as-processes/tour.ts'

const page = readFileSync(join(root, 'docs/config.md'), 'utf8')

test('docs/config.md is taken word for word', async (t) => {
  const home = temporary('config-page')
  const server = await startUp(join(home, 'data'))
  t.after(async () => {
    await server.stop()
    rmSync(home, { recursive: true, force: true })
  })
  const admin = inProcess({ home, env: { HOME: home, COUNTERSIGN_URL: server.url, COUNTERSIGN_DATA: server.data } })
  const { key } = JSON.parse((await admin.run(['key', 'issue', 'user_owner', '--json'])).out)
  const path = [join(root, 'bin'), join(root, 'node_modules/.bin'), process.env['PATH']].join(':')
  const shell = openShell('sh', home, { PATH: path, HOME: home, COUNTERSIGN_URL: server.url, COUNTERSIGN_KEY: key })
  t.after(shell.close)
  const [file] = blocksIn(page).filter(({ language }) => language === 'yaml')
  writeFileSync(join(home, 'company.yaml'), file!.text)
  const withoutBob = file!.text.replace(/^ +user_bob: .*\n/gm, '').replace(', user_bob', '')
  for (const { language, text, prints } of blocksIn(page)) {
    if (language !== 'sh') continue
    if (text.includes('--prune')) writeFileSync(join(home, 'company.yaml'), withoutBob)
    assertPrinted(await shell.run(text), prints!)
  }
})

test('docs/config.md names each top field', () => {
  const { properties } = configSchema as unknown as { properties: Record<string, { patternProperties?: Record<string, any> }> }
  const projects = Object.values(properties['projects']!.patternProperties!)[0]
  for (const field of [...Object.keys(properties), ...Object.keys(projects.properties)]) assert.ok(page.includes(`\`${field}\``), field)
})
