// The difference between a configuration and a server, as pure code: items, their order, and what is theirs to remove.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configOf, itemsOf, keyOf, type Item } from '#apps/cli/config/items.ts'
import { planOf } from '#apps/cli/config/plan.ts'

const link = { issuer: 'https://login.example.com', claim: 'engineering', role: 'viewer' }
const config = {
  people: { user_ada: { name: 'Ada', role: 'member' } },
  projects: {
    project_pay: {
      name: 'Payments',
      members: { user_ada: 'owner' },
      groups: { reviewers: { members: ['user_ada'], linked: [link] }, readers: { linked: [link] } },
    },
  },
}
const present = (value: object): ReadonlyMap<string, Item> => new Map(itemsOf(value as never).map((item) => [keyOf(item), item]))
const nothing = { mine: new Map(), others: new Map() }
const stepsOf = (wanted: object, there: object, owned: object = nothing, prunes = false): any[] =>
  planOf(itemsOf(wanted as never), { present: present(there), owned: owned as never, prunes, me: 'user_owner' }).parts.flatMap(
    ({ changes }) => changes.flatMap(({ steps }) => steps),
  )

test('items of a configuration come together to the same configuration', () => {
  assert.deepEqual(configOf(itemsOf(config as never)), config)
})

test('a group of an issuer is linked, linked anew with another role, and unlinked', () => {
  const without = { projects: { project_pay: { ...config.projects.project_pay, groups: { reviewers: { members: ['user_ada'] } } } } }
  assert.deepEqual(
    stepsOf(config, { ...config, ...without }).map(({ call, input }) => [call, input.name, input.role]),
    [
      ['identity/group.link', 'reviewers', 'viewer'],
      ['identity/group.link', 'readers', 'viewer'],
    ],
  )
  const groups = { readers: { linked: [{ ...link, role: 'owner' }] } }
  const changed = { projects: { project_pay: { ...config.projects.project_pay, groups } } }
  assert.deepEqual(stepsOf(changed, config), [
    { call: 'identity/group.link', input: { project_id: 'project_pay', name: 'readers', ...link, role: 'owner' } },
  ])
  const mine = new Map([
    [
      'project_pay',
      itemsOf(config as never)
        .filter(({ kind }) => kind === 'link')
        .map(({ name }) => `link ${name}`),
    ],
  ])
  assert.deepEqual(
    stepsOf({ ...config, ...without }, config, { ...nothing, mine }, true).map(({ call, input }) => [call, input.name, input.claim]),
    [
      ['identity/group.unlink', 'reviewers', 'engineering'],
      ['identity/group.unlink', 'readers', 'engineering'],
    ],
  )
})

test('the order of the members of a group means nothing', () => {
  const of = (members: string[]) => ({ projects: { project_pay: { groups: { all: { members } } } } })
  assert.deepEqual(stepsOf(of(['user_a', 'user_b']), of(['user_b', 'user_a'])), [])
  assert.equal(stepsOf(of(['user_a']), of(['user_b', 'user_a'])).length, 1)
})
