// The move of an installation from a data folder into a database and back.
import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { moveToDatabase, moveToFolder } from '#apps/server/database/move.ts'
import type { DatabaseSettings } from '#apps/server/settings/database-settings.ts'
import { runPiped } from '../../support/as-processes/cli.ts'
import { inDatabase, isPostgresOff, newDatabase } from '../../support/as-processes/postgres.ts'
import { enroll } from '../../support/as-processes/server.ts'
import { dataFolder, runToEnd, start } from '../../support/as-processes/server-process.ts'
import { SECRET, startServers } from '../../support/as-processes/servers.ts'
import { send } from '../../support/over-sockets/http-client.ts'

const call = async (port: number, key: string, name: string, body: object): Promise<any> => {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const { status, json } = await send(port, `/v1/${name}`, { headers, body: JSON.stringify(body) })
  assert.equal(status, 200, JSON.stringify(json))
  return json
}

describe('a move', { skip: isPostgresOff }, () => {
  test('moves a folder into a database and back, with its record, keys and bytes, and resumes an interrupted move', async (t) => {
    const data = dataFolder(t)
    const first = await start(t, ['--data', data])
    const adminKey = readFileSync(join(data, 'admin.key'), 'utf8').trim()
    const { alice } = await enroll(first.port, adminKey)
    const { task } = await call(first.port, alice, 'collaboration/task.create', { spec: { goal: 'Move it' }, reviewers: ['user_alice'] })
    const bytes = Buffer.alloc(300_000, 5)
    const put = await fetch(`http://127.0.0.1:${first.port}/v1/collaboration/artifact.upload?task_id=${task.id}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${alice}`, 'content-type': 'application/octet-stream' },
      body: bytes,
    })
    assert.equal(put.status, 200)
    const { url, drop } = await newDatabase()
    t.after(drop)
    const settings: DatabaseSettings = { url, secret: { name: 'COUNTERSIGN_SECRET', text: SECRET }, blobs: null, isReplicatedOnly: false }
    const quiet = (): void => undefined
    await assert.rejects(moveToDatabase(data, settings, quiet), /a server uses .*: stop it first/)
    await first.end()

    let said = 0
    const cut = (): void => {
      if (++said === 2) throw new Error('cut off')
    }
    await assert.rejects(moveToDatabase(data, settings, cut), /cut off/)
    const env = { COUNTERSIGN_DATABASE: url, COUNTERSIGN_SECRET: SECRET }
    const early = await runToEnd(t, ['--port', '0', '--data', dataFolder(t)], { env })
    assert.match(early.stderr, /a move into this database is not finished/)
    const moved = await moveToDatabase(data, settings, quiet)
    assert.equal(moved.blobs, 1)
    await assert.rejects(moveToDatabase(data, settings, quiet), /the database is not empty/)

    // The database is a copy now, and the folder has moved.
    const origin = await runToEnd(t, ['--port', '0', '--data', data], {})
    assert.match(
      origin.stderr,
      /this installation was moved to postgres:\/\/[^@ ]+ at \S+: start that one, or read this one with --read-only/,
    )
    const copy = (await startServers(t, 1, { url })).nodes[0]!
    const seen = await send(copy.port, '/health', { method: 'GET' })
    assert.deepEqual([seen.status, seen.json.mode, seen.json.copy_of], [200, 'read-only', data])
    assert.match(copy.stdout(), /Read-only: this is a copy of .*`countersign adopt` makes it the installation/)
    assert.equal((await copy.call(alice, 'collaboration/task.get', { task_id: task.id })).status, 200)
    const refused = await copy.call(alice, 'collaboration/task.cancel', { task_id: task.id })
    assert.deepEqual([refused.status, refused.body.error.code], [403, 'READ_ONLY'])
    await copy.end()
    const adopting = { env: { ...env, HOME: dirname(data) }, cwd: dirname(data) }
    assert.match((await runPiped(['adopt'], adopting)).out, /is the installation now: restart its servers/)
    assert.match((await runPiped(['adopt'], adopting)).out, /is not a copy: there is nothing to adopt/)
    const { nodes } = await startServers(t, 2, { url })
    const there = await nodes[1]!.call(alice, 'collaboration/task.get', { task_id: task.id })
    assert.equal(there.body.task.spec.goal, 'Move it')
    await call(nodes[0]!.port, alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'user_alice' })
    assert.equal((await call(nodes[1]!.port, adminKey, 'collaboration/audit.verify', {})).valid, true)
    for (const node of nodes) await node.end()

    const above = dirname(dataFolder(t))
    const back = join(above, 'm1')
    // By the command, to a folder whose name could be the end of an id.
    const given = { COUNTERSIGN_SECRET: SECRET, HOME: above }
    const ran = await runPiped(['migrate', '--from', url, '--to', 'm1', '--json'], { env: given, cwd: above })
    assert.equal(ran.code, 0, ran.err)
    const returned = JSON.parse(ran.out) as { facts: number }
    assert.ok(returned.facts > moved.facts)
    assert.equal(statSync(join(back, 'countersign.db')).mode & 0o777, 0o600)
    await assert.rejects(moveToFolder(settings, back, quiet), /holds an installation already/)
    const [row] = await inDatabase(url, 'SELECT max(position) AS n FROM countersign.facts')
    assert.equal(returned.facts, Number(row!['n']))
    const gone = await runToEnd(t, ['--port', '0', '--data', dataFolder(t)], { env })
    assert.match(gone.stderr, /this installation was moved to .*m1 at/)
    const away = await runPiped(['adopt'], adopting)
    assert.match(away.err, /was moved to .*m1/)
    assert.equal(away.code === 0, false)
    assert.equal((await runPiped(['adopt', '--data', back], { ...adopting, env: { HOME: dirname(data) } })).code, 0)
    const last = await start(t, ['--data', back])
    assert.equal((await call(last.port, alice, 'collaboration/task.get', { task_id: task.id })).task.executor, 'user_alice')
    assert.equal((await send(last.port, '/health', { method: 'GET' })).json.record, 'verified')
  })
})
