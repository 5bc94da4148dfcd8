// docs/events.md is true: its receiver and its commands, against a fresh server.
import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { inProcess, root, startUp, temporary } from '../../support/as-processes/cli.ts'
import { assertPrinted, blocksIn, openShell } from '../../support/as-processes/tour.ts'
import { freePort } from '../../support/harness/broker.ts'
import { until } from '../../support/over-sockets/receiver.ts'

const page = readFileSync(join(root, 'docs/events.md'), 'utf8')

test('docs/events.md is taken word for word', async (t) => {
  const home = temporary('events-page')
  const server = await startUp(join(home, 'data'), { COUNTERSIGN_WEBHOOK_PRIVATE: 'on' })
  const admin = inProcess({ home, env: { HOME: home, COUNTERSIGN_URL: server.url, COUNTERSIGN_DATA: server.data } })
  const { key } = JSON.parse((await admin.run(['key', 'issue', 'user_owner', '--json'])).out)
  const path = [join(root, 'bin'), join(root, 'node_modules/.bin'), process.env['PATH']].join(':')
  const env = { PATH: path, HOME: home, COUNTERSIGN_URL: server.url, COUNTERSIGN_KEY: key, PORT: String(await freePort()) }
  const shell = openShell('sh', home, env)
  t.after(async () => {
    await shell.run('kill %1 2>/dev/null || kill $!\n').catch(() => undefined)
    await shell.close()
    await server.stop()
    rmSync(home, { recursive: true, force: true })
  })
  const read = (name: string): any => JSON.parse(readFileSync(join(home, name), 'utf8'))
  writeFileSync(join(home, 'receiver.mjs'), blocksIn(page).find(({ language }) => language === 'js')!.text)
  for (const { language, text, prints } of blocksIn(page)) {
    if (language !== 'sh') continue
    if (prints !== null) await until(() => readFileSync(join(home, 'events.txt'), 'utf8').split('\n').length > 2)
    const printed = await shell.run(text)
    if (prints === null) assert.equal(printed.replace(/^\[\d+\].*\n/, ''), '', text)
    else assertPrinted(printed, prints)
  }
  const { progress } = read('channels.json').items[0]
  assert.deepEqual([progress.position, progress.head, progress.attempts, progress.last.status], [2, 2, 0, 204])
  assert.deepEqual([read('first.json').type, read('first.json').sequence], ['countersign.execution.channel.added', '0000000000000001'])
})
