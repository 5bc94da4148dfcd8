// `apply` and `export-config` against a server: differences, repetition, pruning, refusals with their lines, and projects that are applied whole or not at all.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { inProcess, root, startUp, temporary, type Ran, type Running } from '../../../support/as-processes/cli.ts'

const home = temporary('config')
const company = `name: company
people:
  user_owner: { name: Owner, role: owner }
  user_ada: { name: Ada }
  user_bob: { name: Bob }
agents:
  agent_coder: { name: Coder, owner: user_ada, description: Writes code. }
policy:
  gate:
    version: 1
    rules:
      - { id: reads, tool: files/read_*, then: allow }
projects:
  project_pay:
    name: Payments
    members:
      user_owner: owner
      user_ada: owner
      user_bob: member
      agent_coder: member
    groups:
      on-call: { members: [user_ada, user_bob] }
    policy:
      floors:
        - { scope: 'deploy:*', risk: R3 }
`

let server: Running
let keys: Record<string, string>
const run = (argv: readonly string[], key = keys['owner']!, input = ''): Promise<Ran> =>
  inProcess({ home, env: { HOME: home, COUNTERSIGN_URL: server.url, COUNTERSIGN_KEY: key } }).run(argv, input)
async function ask(argv: readonly string[], key?: string): Promise<any> {
  const { code, out, err } = await run([...argv, '--json'], key)
  assert.equal(code, 0, err)
  return JSON.parse(out)
}
const lastFact = async (): Promise<string> =>
  (await ask(['audit', 'query', '--project-id', 'system', '--order', 'newest', '--limit', '1'])).items[0].id
function write(name: string, text: string): string {
  writeFileSync(join(home, name), text)
  return name
}
async function apply(text: string, ...words: string[]): Promise<any[]> {
  return (await ask(['apply', '-f', write('company.yaml', text), ...words])).changes
}
const refusalOf = async (text: string, key?: string, name = 'company.yaml'): Promise<Ran> => run(['apply', '-f', write(name, text)], key)
const briefly = (changes: any[]): string[] => changes.map(({ change, part, kind, name }) => `${change} ${part} ${kind} ${name}`)

before(async () => {
  server = await startUp(join(home, 'data'))
  const admin = await inProcess({ home, env: { HOME: home, COUNTERSIGN_URL: server.url, COUNTERSIGN_DATA: server.data } }).run([
    'key',
    'issue',
    'user_owner',
    '--json',
  ])
  keys = { owner: JSON.parse(admin.out).key }
})
after(async () => {
  await server?.stop()
  rmSync(home, { recursive: true, force: true })
})

describe('a configuration', () => {
  test('a dry run shows the difference and changes nothing', async () => {
    const { code, out } = await run(['apply', '-f', write('company.yaml', company), '--dry-run'])
    assert.equal(code, 0)
    assert.match(out, /^CHANGE +PART +KIND +NAME +FIELDS\n/)
    assert.match(out, /^add +installation +person +user_ada +name: Ada; role: member$/m)
    assert.match(out, /^add +project_pay +group +on-call +members: user_ada, user_bob$/m)
    assert.match(out, / changes?, nothing is applied yet\n$/)
    assert.equal((await ask(['user', 'list'])).items.length, 1)
  })

  test('an applied file is what the server is, and applied again changes nothing', async () => {
    assert.ok((await apply(company)).every(({ applied }) => applied))
    assert.deepEqual(await apply(company), [])
    assert.equal((await run(['apply', '-f', 'company.yaml'])).out, 'nothing to change\n')
    const { items } = await ask(['group', 'list', '--project-id', 'project_pay'])
    assert.deepEqual(items[0].members, ['user_ada', 'user_bob'])
    const { policy } = await ask(['policy', 'get', '--project-id', 'project_pay'])
    assert.deepEqual(policy.floors, [{ scope: 'deploy:*', risk: 'R3' }])
  })

  test('a change is a step for the fields that differ', async () => {
    const changes = await apply(company.replace('user_bob: member', 'user_bob: owner').replace('name: Bob', 'name: Robert'))
    assert.deepEqual(
      changes.map(({ kind, name, fields }) => ({ kind, name, fields })),
      [
        { kind: 'person', name: 'user_bob', fields: { name: { before: 'Bob', after: 'Robert' } } },
        { kind: 'member', name: 'user_bob', fields: { role: { before: 'member', after: 'owner' } } },
      ],
    )
    await apply(company)
  })

  test('an exported configuration changes nothing, as YAML and as JSON', async () => {
    const yaml = (await run(['export-config', '--name', 'exported'])).out
    assert.match(yaml, /^name: exported\npeople:\n/)
    assert.match(yaml, /^ {6}on-call:\n {8}members:\n {10}- user_ada\n/m)
    assert.deepEqual(await apply(yaml, '--dry-run'), [])
    const file = write('company.json', JSON.stringify(await ask(['export-config']), null, '\t'))
    assert.deepEqual((await ask(['apply', '-f', file, '--dry-run'])).changes, [])
  })

  test('the files of a folder are one configuration, and standard input is one too', async () => {
    mkdirSync(join(home, 'company'), { recursive: true })
    const [top, projects] = company.split(/^(?=projects:)/m) as [string, string]
    write('company/1.yaml', top)
    write('company/projects.yml', projects)
    assert.deepEqual((await ask(['apply', '-f', 'company'])).changes, [])
    write('company/twice.yaml', 'people:\n\n  user_ada: { name: Ada }\n')
    const { code, err } = await run(['apply', '-f', 'company'])
    assert.equal(code, 2)
    assert.match(err, /company\/twice\.yaml:3: people\.user_ada is given twice, first in company\/1\.yaml:4/)
    assert.equal((await run(['apply', '-f', '-'], keys['owner'], company)).out, 'nothing to change\n')
  })

  test('the schema is published and names every field', async () => {
    const schema = (await (await fetch(`${server.url}/config.schema.json`)).json()) as any
    assert.equal(schema.$schema, 'https://json-schema.org/draft/2020-12/schema')
    assert.deepEqual(Object.keys(schema.properties), ['name', 'people', 'agents', 'policy', 'projects'])
    const [project] = Object.values<any>(schema.properties.projects.patternProperties)
    assert.ok(Object.keys(project.properties).includes('members'))
    assert.equal(project.additionalProperties, false)
  })
})

describe('event channels of a configuration', () => {
  const withChannel = `name: channels
projects:
  project_pay:
    channels:
      siem: { endpoint: 'https://siem.example.com/in', types: [countersign.execution.*] }
`
  const channels = async (): Promise<any[]> => (await ask(['channel', 'list', '--project-id', 'project_pay'])).items

  test('are added without their secret, changed in place, exported and removed', async () => {
    const { code, out, err } = await run(['apply', '-f', write('channels.yaml', withChannel), '--json'])
    assert.equal(code, 0, err)
    assert.ok(!out.includes('whsec_'))
    const [added] = await channels()
    assert.deepEqual([added.label, added.endpoint, added.types], ['siem', 'https://siem.example.com/in', ['countersign.execution.*']])
    assert.deepEqual(await apply(withChannel), [])
    assert.deepEqual(briefly(await apply(withChannel.replace('[countersign.execution.*]', '[]'))), ['change project_pay channel siem'])
    const [changed] = await channels()
    assert.deepEqual([changed.id, changed.types], [added.id, []])
    const exported = (await run(['export-config'])).out
    assert.match(exported, /^ {4}channels:\n {6}siem:\n {8}endpoint: https:\/\/siem\.example\.com\/in\n/m)
    assert.ok(!exported.includes('whsec_'))
    assert.deepEqual(await apply(exported, '--dry-run'), [])
    assert.deepEqual(briefly(await apply('name: channels\n', '--prune')), ['remove project_pay channel siem'])
    assert.deepEqual(await channels(), [])
  })

  test('are followed at a terminal as CloudEvents too', async () => {
    const [first] = (await ask(['audit', 'query', '--project-id', 'project_pay'])).items
    const words = [join(root, 'bin/countersign.js'), 'audit', 'follow', '--project-id', 'project_pay', '--format', 'cloudevents']
    const env = { PATH: process.env['PATH']!, HOME: home, COUNTERSIGN_URL: server.url, COUNTERSIGN_KEY: keys['owner']! }
    const follower = spawn(process.execPath, words, { env, stdio: ['ignore', 'pipe', 'inherit'] })
    const lines = createInterface(follower.stdout)
    const [line] = (await once(lines, 'line')) as [string]
    follower.kill('SIGTERM')
    await once(follower, 'exit')
    const event = JSON.parse(line)
    assert.deepEqual(
      [event.specversion, event.id, event.source, event.type, event.time, event.sequence, event.data.seq],
      [
        '1.0',
        first.id,
        `${server.url}/projects/project_pay`,
        `countersign.${first.protocol}.${first.action}`,
        first.at,
        '0000000000000001',
        1,
      ],
    )
  })
})

describe('pruning', () => {
  const without = company
    .replace('  user_bob: { name: Bob }\n', '')
    .replace('      user_bob: member\n', '')
    .replace(/ {4}groups:\n.*\n/, '')
    .replace(/ {4}policy:\n[^]*$/, '')

  test('--prune removes what a file had set before, and nothing else', async () => {
    await ask(['user', 'add', 'Carol', '--id', 'user_carol'])
    await ask(['group', 'set', 'others', '--project-id', 'project_pay', '--members', 'user_ada'])
    assert.deepEqual(await apply(without), [])
    assert.deepEqual(briefly(await apply(without, '--prune', '--dry-run')), [
      'remove installation person user_bob',
      'remove project_pay policy floors',
      'remove project_pay group on-call',
      'remove project_pay member user_bob',
    ])
    assert.equal((await apply(without, '--prune')).length, 4)
    assert.deepEqual(await apply(without, '--prune'), [])
    assert.deepEqual(
      (await ask(['user', 'list'])).items.filter(({ disabled }: any) => disabled).map(({ id }: any) => id),
      ['user_bob'],
    )
    assert.deepEqual(
      (await ask(['group', 'list', '--project-id', 'project_pay'])).items.map(({ name }: any) => name),
      ['others'],
    )
  })

  test('--prune leaves what another file has set as well', async () => {
    const other = 'name: other\npeople:\n  user_dan: { name: Dan }\n'
    await apply(other)
    await apply(`${without}`.replace('people:\n', 'people:\n  user_dan: { name: Dan }\n'))
    assert.deepEqual(await apply(without, '--prune'), [])
    assert.deepEqual(briefly(await apply('name: other\n', '--prune')), ['remove installation person user_dan'])
  })
})

describe('a mistake has its line, and nothing is changed', () => {
  const cases: readonly (readonly [string, string, RegExp])[] = [
    [
      'an unknown field',
      company.replace('role: owner', 'rolle: owner'),
      /company\.yaml:3: people\.user_owner\.rolle is not a field here; did you mean role\?/,
    ],
    ['an unknown role', company.replace('user_bob: member', 'user_bob: boss'), /company\.yaml:19: .*must be one of: owner, member/],
    ['an unknown person', company.replace('[user_ada, user_bob]', '[user_ada, user_zed]'), /company\.yaml:22: there is no person user_zed/],
    ['an unknown agent', company.replace('agent_coder: member', 'agent_zed: member'), /company\.yaml:20: there is no agent agent_zed/],
    [
      'an unknown group',
      company.replace('then: allow }', 'then: ask, whom: { groups: [nobody] } }'),
      /company\.yaml:12: there is no group nobody/,
    ],
    [
      'a repeated key',
      company.replace('  user_bob: { name: Bob }', '  user_ada: { name: Bob }'),
      /company\.yaml:5: user_ada is given twice, first in line 4/,
    ],
    ['a tab', company.replace('  user_ada: {', '\tuser_ada: {'), /company\.yaml:4: a tab cannot indent: use spaces/],
    ['two documents', `${company}---\na: 1\n`, /company\.yaml:\d+: the file has several documents/],
    ['an alias without an anchor', 'people: *x\n', /company\.yaml:1: there is no anchor &x before this line/],
    ['an anchor in itself', 'people: &x [*x]\n', /company\.yaml:1: the anchor &x contains itself/],
    ['a tag', 'name: !!binary aGk=\n', /company\.yaml:1: the tag .*binary is not known here/],
    ['a deep nesting', `${'['.repeat(50_000)}`, /company\.yaml:1: more than 32 levels/],
    ['a wrong id', 'people:\n  ada: { name: Ada }\n', /company\.yaml:2: people\.ada is not a possible name/],
    [
      'another owner of an agent',
      company.replace('owner: user_ada', 'owner: user_owner'),
      /company\.yaml:7: the owner of agent_coder is user_ada/,
    ],
    [
      'what the server refuses',
      company.replace('risk: R3', 'agent_id: agent_coder, risk: R3').replace('      agent_coder: member\n', ''),
      /company\.yaml:23: floors\.0\.agent_id/,
    ],
  ]
  before(async () => {
    await apply(company)
    await ask(['project', 'leave', 'project_pay', 'agent_coder'])
  })
  for (const [what, text, expected] of cases)
    test(`${what} is refused`, async () => {
      const before = await lastFact()
      const { code, err } = await refusalOf(text)
      assert.ok(code === 2 || code === 1, err)
      assert.match(err, expected)
      assert.equal(await lastFact(), before)
    })

  test('anchors that explode are refused, and small ones are written out', async () => {
    const levels = [
      'a: &a [x,x,x,x,x,x,x,x,x,x]',
      ...'bcdefgh'.split('').map((name, i) => `${name}: &${name} [${Array(10).fill(`*${'abcdefgh'[i]}`).join()}]`),
    ]
    const { code, err } = await refusalOf(`${levels.join('\n')}\n`)
    assert.equal(code, 2)
    assert.match(err, /company\.yaml:6: more than 200000 values/)
    const small = await run(['apply', '-f', write('small.yaml', `people: &all\n  user_ada: { name: Ada }\nagents: {}\n`)])
    assert.equal(small.code, 0, small.err)
  })

  test('a refused project stays as it was, and another one is applied', async () => {
    const two = `name: two
people:
  user_owner: { name: Owner, role: owner }
projects:
  project_bad:
    members: { user_owner: member }
    policy: { floors: [{ risk: R2 }] }
  project_good:
    members: { user_owner: owner }
    policy: { floors: [{ risk: R2 }] }
`
    const bad = two.replace('{ floors: [{ risk: R2 }] }', '{ defaults: forbid }')
    const { code, err, out } = await refusalOf(bad, undefined, 'two.yaml')
    assert.equal(code, 1)
    assert.match(err, /two\.yaml:7: only people set defaults and forbid/)
    assert.match(out, /applied \d changes/)
    const ids = (await ask(['project', 'list'])).items.map(({ id }: any) => id)
    assert.ok(ids.includes('project_good') && !ids.includes('project_bad'), ids.join())
  })
})

describe('callers', () => {
  test('an owner of a project applies a file for it, and nobody else does', async () => {
    await apply(company)
    keys['ada'] = (await ask(['key', 'issue', 'user_ada'])).key
    keys['bob'] = (await ask(['key', 'issue', 'user_bob'])).key
    const text = 'name: pay\nprojects:\n  project_pay:\n    groups:\n      deciders: { members: [user_ada] }\n'
    const asBob = await refusalOf(text, keys['bob'], 'pay.yaml')
    assert.match(asBob.err, /UNAUTHORIZED/)
    const asAda = await refusalOf(text, keys['ada'], 'pay.yaml')
    assert.equal(asAda.code, 0, asAda.err)
    assert.match(asAda.out, /applied 1 change\n/)
    const people = await refusalOf('people:\n  user_eve: { name: Eve }\n', keys['ada'], 'people.yaml')
    assert.match(people.err, /UNAUTHORIZED/)
  })
})
