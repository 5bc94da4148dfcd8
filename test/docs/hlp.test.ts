// docs/hlp.md is true: its Python, word for word, in front of a server, and the requests and bounds that it names.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { LIST_MAX } from '#bridges/hlp/calls.ts'
import { openStage } from '../support/as-processes/agents.ts'
import { root } from '../support/as-processes/cli.ts'
import { blocksIn } from '../support/as-processes/tour.ts'

const page = readFileSync(join(root, 'docs/hlp.md'), 'utf8')
const run = promisify(execFile)
const missing = spawnSync('python3', ['--version']).status === 0 ? false : "python3 is not installed: the page's Python was not tried"

/** What their reference client does: a POST without any key of its own, with the principal in a header. */
const CALLS = `
import json

def call(name, params):
    request = urllib.request.Request(BASE + '/v1/ops/' + name, json.dumps({'params': params}).encode(), {'X-HLP-Principal': 'user_owner'})
    return json.loads(urllib.request.urlopen(request).read())

task = call('task.create', {'goal': 'Fix it'})
events = urllib.request.urlopen(BASE + '/v1/events?after=0&max_seconds=0.3').read().decode()
print(json.dumps([task['ownership']['principal'], call('task.get', {'task_id': task['id']})['state'], 'task.created' in events]))
`

test("the page's Python adds a key to the requests of a client that has no place for one", { skip: missing }, async (t) => {
  const stage = await openStage()
  t.after(() => stage.close())
  const { key } = await stage.system('identity/key.issue', { subject: 'user_owner' })
  const block = blocksIn(page).find(({ language }) => language === 'py')!.text
  const script = `KEY = ${JSON.stringify(key)}\nBASE = ${JSON.stringify(`${stage.server.url}/hlp`)}\n${block}\n${CALLS}`
  const { stdout } = await run('python3', ['-c', script], { env: { PATH: process.env['PATH'] } })
  assert.deepEqual(JSON.parse(stdout), ['user_owner', 'created', true])
  const { status } = await fetch(`${stage.server.url}/hlp/v1/ops/task.list`, {
    method: 'POST',
    headers: { 'x-hlp-principal': 'user_owner' },
  })
  assert.equal(status, 401)
  for (const path of ['/hlp/v1/version', '/hlp/v1/health']) assert.equal((await fetch(stage.server.url + path)).status, 200, path)
})

test('the page names the versions and the bound that hold', async (t) => {
  const stage = await openStage()
  t.after(() => stage.close())
  const { spec_version, schema_version, profile } = (await (await fetch(`${stage.server.url}/hlp/v1/version`)).json()) as Record<
    string,
    string
  >
  assert.ok(page.includes(`\`${spec_version}\`, \`${schema_version}\`, \`${profile}\``))
  assert.ok(page.includes(`X-HLP-Truncated: ${LIST_MAX}`))
})
