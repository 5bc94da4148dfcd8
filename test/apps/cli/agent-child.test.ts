// The command line inside an agent's program: it acts as that agent or not at all, whatever credentials the account has.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { AddressInfo } from 'node:net'
import { specsOf } from '#apps/cli/derive/commands.ts'
import { createLog } from '#apps/server/log.ts'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { startServer, type Server } from '#apps/server/server.ts'
import { protocols } from '#protocols/index.ts'
import { inProcess, runPiped, temporary, type Ran } from '../../support/as-processes/cli.ts'

const home = temporary('agent-child')
const data = join(home, 'data')
let server: Server
let robin: string
const run = (argv: readonly string[], env: Record<string, string> = {}, input = ''): Promise<Ran> =>
  inProcess({ home, env: { COUNTERSIGN_URL: server.url, ...env } }).run(argv, input)
const marked = { COUNTERSIGN_AGENT: 'agent_robin' }

before(async () => {
  const { config } = readConfig(['--data', data, '--port', '0', '--log', 'silent'], {}) as { config: Config }
  server = await startServer(config, { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) })
  assert.equal((await run(['login', '--as', 'user_owner'])).code, 0)
  for (const name of ['robin', 'kim'])
    assert.equal((await run(['agent', 'add', name, '--id', `agent_${name}`, '--owner', 'user_owner'])).code, 0)
  robin = JSON.parse((await run(['key', 'issue', 'agent_robin', '--json'])).out).key
})
after(() => server.stop())

describe('under COUNTERSIGN_AGENT', () => {
  test('a stored login and a readable admin.key give no identity; the agent’s own key does', async () => {
    assert.match((await run(['whoami'])).out, /^id +user_owner$/m)
    const nobody = await run(['whoami'], marked)
    assert.deepEqual([nobody.code, nobody.out], [4, ''])
    assert.match(
      nobody.err,
      /runs for agent_robin \(COUNTERSIGN_AGENT\); stored logins and admin\.key are not used here \[UNAUTHENTICATED\]/,
    )
    assert.match(nobody.err, /→ give the key of agent_robin itself, with COUNTERSIGN_KEY or --api-key/)
    rmSync(join(home, '.config'), { recursive: true })
    assert.equal((await run(['whoami'])).err.includes('using the admin key'), true)
    assert.equal((await run(['whoami'], marked)).code, 4)
    assert.equal((await run(['login', '--as', 'user_owner'])).code, 0)
    for (const own of [['--api-key', robin], []])
      assert.match(
        (await run(['whoami', ...own], { ...marked, ...(own.length > 0 ? {} : { COUNTERSIGN_KEY: robin }) })).out,
        /^id +agent_robin$/m,
      )
  })

  test('a foreign key is refused before it is used', async () => {
    const kim = JSON.parse((await run(['key', 'issue', 'agent_kim', '--json'])).out).key as string
    const owner = JSON.parse(readFileSync(join(home, '.config/countersign/config.json'), 'utf8')).logins[0].key as string
    const admin = readFileSync(join(data, 'admin.key'), 'utf8').trim()
    const before = (await run(['task', 'list', '--json'])).out
    for (const [key, id] of [
      [kim, 'agent_kim'],
      [owner, 'user_owner'],
      [admin, 'service_admin'],
    ] as const) {
      const { code, err } = await run(['task', 'create', '--goal', 'Mine', '--api-key', key], marked)
      assert.equal(code, 1, err)
      assert.match(err, new RegExp(`the key is of ${id}, and this program runs for agent_robin`))
    }
    assert.equal((await run(['task', 'list', '--json'])).out, before)
  })

  test('its own question stays unanswered: it can ask, and it cannot answer', async () => {
    const { out } = await run(['ask', 'approve', 'Deploy', '--no-wait'], { ...marked, COUNTERSIGN_KEY: robin })
    const asked = out.trim()
    assert.equal((await run(['inbox', 'answer', asked, 'approve'], marked)).code, 4)
    assert.equal((await run(['inbox', 'answer', asked, 'approve'], { ...marked, COUNTERSIGN_KEY: robin })).code, 1)
    assert.match((await run(['inbox', 'list', '--json'])).out, new RegExp(asked))
  })

  test('an agent’s program cannot start a server, whose link would make its reader the owner', async () => {
    for (const argv of [
      ['up', '--port', '0'],
      ['device', 'up'],
    ]) {
      const { code, err } = await runPiped(argv, { env: { HOME: home, ...marked }, cwd: home })
      assert.equal(code, 1)
      assert.match(
        err,
        new RegExp(`\`countersign ${argv.slice(0, argv[0] === 'up' ? 1 : 2).join(' ')}\` uses the rights of this machine's user`),
      )
    }
  })

  test('no command there is sends a credential of the person, with the examples of its own help', async () => {
    const heard: string[] = []
    const spy = createServer((request, answer) => {
      heard.push(`${request.headers.authorization ?? ''} ${request.url}`)
      answer.setHeader('content-type', 'application/json').end('{"id":"agent_robin","status":"ok"}')
    }).listen(0, '127.0.0.1')
    await once(spy, 'listening')
    const url = `http://127.0.0.1:${(spy.address() as AddressInfo).port}`
    // A login that would be used: the spy says no installation, so that nothing speaks against it.
    const file = join(home, '.config/countersign/config.json')
    const kept = readFileSync(file, 'utf8')
    mkdirSync(join(home, '.config/countersign'), { recursive: true })
    writeFileSync(file, JSON.stringify({ current: url, logins: [{ url, key: 'cs_login_secret' }] }))
    try {
      const specs = specsOf(protocols)
      const cli = inProcess({ home, env: { COUNTERSIGN_URL: url, ...marked } })
      assert.ok(specs.length > 150)
      for (const { path, examples, isLocal } of specs)
        for (const line of examples.length > 0 ? examples : [`countersign ${path.join(' ')}`]) {
          const said = /(?<=(?:^|[ (])countersign ).*?(?= [|&<>]|$)/.exec(line)![0]
          const argv = (said.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll(/^'|'$/g, ''))
          if (argv[0] === 'completion') continue
          const { code, err } = await cli.run(argv)
          assert.doesNotMatch(err, /too many arguments|unknown option/, `the example is not what the command takes: ${line}`)
          if (isLocal) assert.match(err, /uses the rights of this machine's user/, line)
          else if (code === 0) assert.match(line, /receipt|doctor|permissions|audit|hook/, `${line} needed no key`)
        }
      const sent = heard.filter((one) => !one.startsWith(' '))
      assert.deepEqual(sent, [])
    } finally {
      writeFileSync(file, kept)
      spy.close()
    }
  })
})
