// The log of several servers on one PostgreSQL: each has the tiles, the one with the lease signs, and never are there two roots for one size.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isPostgresOff } from '../../../support/as-processes/postgres.ts'
import { startServers, type Node } from '../../../support/as-processes/servers.ts'

test(
  'two servers show one log, prove facts of each other, and one goes on signing after the other was killed',
  { skip: isPostgresOff },
  async (t) => {
    const servers = await startServers(t, 2, undefined, { COUNTERSIGN_LOG_EVERY: 'PT0.1S' })
    const [a, b] = servers.nodes as [Node, Node]
    const roots = new Map<string, string>()
    const textOf = async ({ port }: Node, path: string): Promise<string> => (await fetch(`http://127.0.0.1:${port}${path}`)).text()
    const note = (checkpoint: string): void => {
      const [origin, size, root] = checkpoint.split('\n') as [string, string, string]
      const key = `${origin} ${size}`
      assert.equal(roots.get(key) ?? root, root, `two roots for ${key}`)
      roots.set(key, root)
    }
    assert.equal(await textOf(a, '/log/policy'), await textOf(b, '/log/policy'))
    for (let i = 0; i < 6; i++) {
      const [writer, prover] = i % 2 === 0 ? [a, b] : [b, a]
      assert.equal((await writer.call(servers.adminKey, 'identity/project.add', { id: `project_p${i}`, name: 'P' })).status, 200)
      const { body: head } = await writer.call(servers.adminKey, 'collaboration/audit.verify', { project_id: 'system' })
      const { status, body } = await prover.call(servers.adminKey, 'collaboration/audit.proof', {
        project_id: 'system',
        seq: head.head.seq,
      })
      assert.equal(status, 200, JSON.stringify(body))
      note(body.checkpoint)
      note(await textOf(a, '/log/checkpoint'))
      note(await textOf(b, '/log/checkpoint'))
    }
    await a.end('SIGKILL')
    await b.call(servers.adminKey, 'identity/project.add', { id: 'project_last', name: 'P' })
    for (;;) {
      const { body: head } = await b.call(servers.adminKey, 'collaboration/audit.verify', { project_id: 'system' })
      const { status, body } = await b.call(servers.adminKey, 'collaboration/audit.proof', { project_id: 'system', seq: head.head.seq })
      if (status === 200) {
        note(body.checkpoint)
        break
      }
      assert.equal(body.error.code, 'UNAVAILABLE')
    }
  },
)
