// The commands of the log, on a running server and on its folder.
import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { keysIn, logKeyFile } from '#apps/server/folder/key-files.ts'
import { inProcess } from '../../../support/as-processes/cli.ts'
import { logFolder, serve } from '../../../support/log/served.ts'

test('`log` shows the state, prints the policy, publishes a copy and rotates the key; what is not there is said', async (t) => {
  const folder = logFolder(t)
  const served = await serve(folder, ['--log-every', 'PT0.1S'])
  const ids = Array.from({ length: 300 }, (_, i) => `project_p${i}`)
  await Promise.all(ids.map((id) => served.call('identity/project.add', { id, name: 'P' })))
  const note = await served.covered()
  const home = logFolder(t)
  const run = (...words: string[]) => inProcess({ home, env: { COUNTERSIGN_URL: served.url, COUNTERSIGN_DATA: folder } }).run(words)
  const shown = await run('log', 'show')
  assert.deepEqual(
    [shown.code, /^log +inst_\S+\/log\nfacts +\d+, \d+ signed, \d+ with enough witnesses\n$/.test(shown.out)],
    [0, true],
    shown.out + shown.err,
  )
  assert.equal(JSON.parse((await run('log', 'show', '--json')).out).signed, Number(note.split('\n')[1]))
  const policy = await run('log', 'policy')
  assert.equal(policy.out, await served.text('/log/policy'))
  const copy = join(home, 'copy')
  assert.match((await run('log', 'publish', copy)).out, /\d+ facts, 3 new tiles/)
  assert.equal(readFileSync(join(copy, 'checkpoint'), 'utf8'), note)
  assert.equal(readFileSync(join(copy, 'tile', '0', '000')).length, 8_192)
  // The full tile is there already.
  assert.match((await run('log', 'publish', copy)).out, /2 new tiles/)
  const rotated = await run('log', 'rotate', '--data', folder)
  assert.deepEqual([rotated.code, /checkpoints are signed with \S+ now/.test(rotated.out)], [0, true], rotated.err)
  assert.equal(JSON.parse(readFileSync(logKeyFile(keysIn(folder)), 'utf8')).retired.length, 1)
  await served.stop()
  assert.equal((await run('log', 'show')).code, 3)
  assert.equal((await run('log', 'rotate', '--lost', '--data', folder)).out, 'nothing is missing\n')
  rmSync(logKeyFile(keysIn(folder)))
  assert.equal((await run('log', 'rotate', '--data', folder)).code, 1)
  assert.equal((await run('log', 'rotate', '--lost', '--data', folder)).code, 0)
  const again = await serve(folder, ['--log-every', 'PT0.1S'])
  await again.covered()
  const { items } = await again.call('collaboration/audit.query', { project_id: 'system', action: 'log.recorded', order: 'newest' })
  assert.ok(items[0].after.keys.length >= 2, 'the lost key is still named')
  await again.stop()
  writeFileSync(logKeyFile(keysIn(folder)), 'broken')
  await assert.rejects(serve(folder), /log\.json cannot be used/)
})
