// The file with the policy of the installation: written at the start, once, and refused with its place when it could not be applied.
import { deepEqual, equal, rejects, throws } from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { readPolicy } from '#apps/server/settings/policy-file.ts'
import { startUp, temporary } from '../../../support/as-processes/cli.ts'
import { stage } from '../../../support/in-process/stage.ts'

const folder = temporary('policy-file')
after(() => rmSync(folder, { recursive: true, force: true }))
const path = join(folder, 'policy.json')
const write = (value: unknown): string => {
  writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value))
  return path
}
const rule = { id: 'reads', tool: 'files/read_*', then: 'allow' }

test('a file that could not be applied is refused with the file, the place in it and the rule', () => {
  const rows: [unknown, RegExp][] = [
    ['{', /policy\.json: /],
    ['{"version":1,"version":1,"rules":[]}', /policy\.json: .*version/],
    [{ version: 2, rules: [] }, /policy\.json: version/],
    [{ version: 1, rules: [rule, { ...rule, id: 'b', then: 'maybe' }] }, /policy\.json: rules\.1\.then .*\(rule b\)/],
    [{ version: 1, rules: [{ ...rule, wehn: [] }] }, /policy\.json: .*wehn.*\(rule reads\)/],
    [
      { version: 1, rules: [{ ...rule, when: [{ at: '/x', matches: '(' }] }] },
      /policy\.json: rules\.0\.when\.0\.matches: .*\(rule reads\)/,
    ],
    [{ version: 1, rules: [rule, rule] }, /policy\.json: rules\.1\.id: another rule has this id \(rule reads\)/],
    [{ gate: { version: 1, rules: [] } }, /policy\.json: /],
  ]
  for (const [value, message] of rows) throws(() => readPolicy(write(value)), message)
  throws(() => readPolicy(join(folder, 'none.json')), /none\.json: the file with the policy cannot be read/)
  deepEqual(readPolicy(write({ version: 1, rules: [rule] })), { version: 1, rules: [rule] })
})

test('the server writes it as the system, and the same file writes nothing again', async () => {
  const on = await stage()
  const gate = { version: 1, rules: [rule] }
  const first = await on.call('system', 'execution/policy.set', { installation: true, gate })
  on.world.advance(1_000)
  const again = await on.call('system', 'execution/policy.set', { installation: true, gate })
  equal(again.policy.updated_at, first.policy.updated_at)
  await on.refused('UNAUTHORIZED', 'system', 'execution/policy.set', { project_id: 'project_default', gate })
})

test('a server does not start with a file that could not be applied', async () => {
  const file = write({ version: 1, rules: [{ ...rule, quorum: 2 }] })
  await rejects(startUp(join(folder, 'data'), { COUNTERSIGN_POLICY: file }))
})
