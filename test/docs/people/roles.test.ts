// docs/roles.md is true: its commands print what it shows, its tables name every role and field, and the rule that it sets holds.
import assert from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { ApprovalRule } from '#protocols/execution/schema.ts'
import { InstallationRole, ProjectRole } from '#protocols/identity/schema.ts'
import { inProcess, root, startUp, temporary, type Ran, type Running } from '../../support/as-processes/cli.ts'
import { assertPrinted, blocksIn } from '../../support/as-processes/tour.ts'

const page = readFileSync(join(root, 'docs/roles.md'), 'utf8')
const sectionOf = (title: string): string => page.split('\n## ').find((one) => one.startsWith(title))!
const home = temporary('roles-page')
let server: Running
const keys: Record<string, string> = {}
const run = (argv: readonly string[], key?: string): Promise<Ran> =>
  inProcess({ home, env: { HOME: home, COUNTERSIGN_URL: server.url, ...(key === undefined ? {} : { COUNTERSIGN_KEY: key }) } }).run(
    argv,
    '',
  )
const ask = async (argv: readonly string[], key?: string): Promise<any> => {
  const { code, out, err } = await run([...argv, '--json'], key)
  assert.equal(code, 0, err)
  return JSON.parse(out)
}
/** The words of a command as a shell reads them: parts in single quotes are one word. */
const wordsOf = (line: string): string[] => [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!)

before(async () => {
  server = await startUp(join(home, 'data'), {})
  for (const name of ['Alice', 'Rita', 'Otto', 'Vera']) await ask(['user', 'add', name, '--id', `user_${name.toLowerCase()}`])
  await ask(['agent', 'add', 'Coder', '--id', 'agent_coder', '--owner', 'user_alice'])
  for (const subject of ['user_owner', 'user_alice', 'user_rita', 'user_otto', 'agent_coder'])
    keys[subject] = (await ask(['key', 'issue', subject])).key
})
after(async () => {
  await server?.stop()
  rmSync(home, { recursive: true, force: true })
})

test('every role and every field of a rule is in a table, and the bounds are those of the server', () => {
  for (const role of InstallationRole.enum) assert.match(sectionOf('In the installation'), new RegExp(`^\\| \`${role}\` \\|`, 'm'))
  for (const role of ProjectRole.enum) assert.match(sectionOf('In a project'), new RegExp(`^\\| \`${role}\` \\|`, 'm'))
  for (const field of Object.keys(ApprovalRule.properties)) assert.match(sectionOf('Approvals'), new RegExp(`^\\| \`${field}\` \\|`, 'm'))
  assert.ok(page.includes(`up to ${limits.groupsPerPersonMax} groups a person, up to ${limits.placesPerClaimMax} groups of projects`))
})

test('the commands print what the page shows, and the rule holds', async () => {
  let request_id = ''
  for (const { language, text, prints } of blocksIn(page)) {
    if (language !== 'sh') continue
    if (text.includes('<request_id>')) {
      const payload = JSON.stringify({ item: 'Pay the invoice', details: { amount: 4000 } })
      const asked = await ask(['request', 'create', '--action', 'APPROVE', '--risk', 'R4', '--payload', payload], keys['agent_coder'])
      request_id = asked.request.id
    }
    const { code, out, err } = await run(wordsOf(text.trim().replace('<request_id>', request_id)).slice(1), keys['user_owner'])
    assert.equal(code, 0, `${text}${err}`)
    assertPrinted(out, prints!)
  }
  const answer = (who: string): Promise<Ran> =>
    run(['request', 'resolve', request_id, 'approved', '--confirm', 'approve R4', '--json'], keys[who])
  assert.match((await answer('user_alice')).err, /UNAUTHORIZED/)
  assert.match((await answer('user_otto')).err, /auditors read, verify and export, and change nothing/)
  assert.equal(JSON.parse((await answer('user_rita')).out).request.status, 'pending')
  assert.equal(JSON.parse((await answer('user_owner')).out).receipt.result, 'approved')
  assert.equal((await ask(['audit', 'verify'], keys['user_otto'])).valid, true)
})
