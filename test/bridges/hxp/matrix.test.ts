// Every route of HXP with every kind of credential, on its own documents, on foreign ones and on missing ones: derived
// from the table of routes, so that a route that is added is asked too. 401 if the credential is not good for the route, 404 where
// it is and the thing is not theirs, and nothing is changed by either.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { BridgeHost } from '#bindings/http/mount.ts'
import type { Route } from '#bridges/hxp/route.ts'
import { tableOf } from '#bridges/hxp/routes.ts'
import type { Tickets } from '#bridges/hxp/sockets/tickets.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { assertRefused, hxpWorld, QUESTION, type HxpWorld } from '../../support/over-sockets/hxp-world.ts'

type Cell = {
  readonly method: string
  readonly path: (object: string) => string
  readonly names: 'request' | 'rule' | null
  readonly route: Route
}

/** The table names the caller and the operation. */
function cells(): Cell[] {
  const { fixed, below, rule } = tableOf({ host: {} as BridgeHost, tickets: {} as Tickets })
  const of = (methods: object, names: Cell['names'], path: Cell['path']): Cell[] =>
    Object.entries(methods as Record<string, Route>).map(([method, route]) => ({ method, path, names, route }))
  return [
    ...Object.entries(fixed).flatMap(([path, methods]) => of(methods, null, () => path)),
    ...Object.entries(below).flatMap(([word, methods]) =>
      of(methods, 'request', (id) => `/hxp/v1/requests/${id}${word === '' ? '' : `/${word}`}`),
    ),
    ...of(rule, 'rule', (id) => `/hxp/v1/delegation/rules/${id}`),
  ]
}

const bodies: Record<string, unknown> = {
  'execution/request.create': { ...QUESTION, agent_id: 'agent_devin' },
  'execution/request.resolve': { result: 'Approve' },
  'execution/rule.add': { delegate_to: 'user_rita', tag: 'a' },
  'execution/rule.order': { order: [] },
  'execution/receipt.verify': { receipt: {} },
}
const NOBODY = { request: 'hxp_01M7GMWX16CYD5TMA0423FKEE4', rule: 'rule_01M7GMWX16CYD5TMA0423FKEE4' }

const agents = ['devin', 'robin', 'spy', 'project'] as const
const people = ['alice', 'rita', 'bob', 'mallory', 'owner'] as const
/** The owner of the request and of the rule, by what is done with them. */
const theirs: Record<string, readonly string[]> = {
  'execution/request.get': ['devin', 'project', 'alice', 'owner'],
  'execution/request.cancel': ['devin', 'project'],
  'execution/request.resolve': ['alice', 'owner'],
  'execution/file.add': ['alice', 'owner'],
  'execution/secret.take': ['devin'],
  'execution/rule.remove': ['alice'],
}

async function stage(t: Parameters<typeof hxpWorld>[0]) {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-matrix-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const blobs = await openBlobs(folder, { fatal: (error) => assert.fail(String(error)) })
  const world = await hxpWorld(t, { blobs, http: { bytes: { blobs, bytesMax: 1_000 } } })
  const { request_id } = await world.ask()
  const added = await world.http('alice', 'POST', '/delegation/rules', { delegate_to: 'user_rita', tag: 'first' })
  const { key: admin } = await world.call('system', 'identity/key.issue', { subject: 'service_admin' })
  const own = { request: request_id as string, rule: added.json.rule.id as string }
  const call = ({ method, path, names, route }: Cell, as: string | null, ids = own) =>
    world.http(
      as,
      method,
      path(names === null ? '' : ids[names]),
      method === 'GET' || method === 'DELETE' ? undefined : (bodies[route.operation] ?? {}),
    )
  return { world, own, admin: admin as string, call }
}

const whole = async (world: HxpWorld): Promise<unknown> => {
  const kinds = ['execution.request/', 'execution.rules/']
  const keys = (await Promise.all(kinds.map((kind) => world.store.keys(kind, `${kind}\u{10ffff}`, 1_000)))).flat()
  return [keys, await world.store.read(keys)]
}

test('the table is whole: every route is there, and each says for whom it is', () => {
  const all = cells()
  assert.ok(all.length >= 15, `${all.length} routes`)
  for (const { names, route } of all) {
    assert.ok(['agent', 'human', 'anyone'].includes(route.who))
    if (names !== null) assert.ok(theirs[route.operation], `whose is it for ${route.operation}?`)
  }
})

test('without a credential, with none that is one, and with one that was revoked: 401 everywhere', async (t) => {
  const { world, call } = await stage(t)
  const before = await whole(world)
  const { key, issued } = await world.call('system', 'identity/key.issue', { subject: 'user_alice' })
  await world.call('system', 'identity/key.revoke', { key_id: issued.id })
  for (const cell of cells())
    for (const as of [null, 'x', `${world.keys.devin}x`, key]) assertRefused(await call(cell, as as string | null), 401, 'unauthorized')
  assert.deepEqual(await whole(world), before)
})

test('a credential of the wrong kind: 401, whether the thing exists or not, and nothing happens', async (t) => {
  const { world, own, admin, call } = await stage(t)
  const before = await whole(world)
  let asked = 0
  for (const cell of cells()) {
    const { who } = cell.route
    const wrong = who === 'human' ? [...agents, admin] : who === 'agent' ? [...people, admin] : []
    for (const as of wrong)
      for (const ids of [own, NOBODY]) {
        assertRefused(await call(cell, as, ids), 401, 'unauthorized')
        asked++
      }
  }
  assert.ok(asked > 100, String(asked))
  assert.deepEqual(await whole(world), before)
})

test('of the right kind, and not theirs: 404, in the same words as what does not exist', async (t) => {
  const { world, own, call } = await stage(t)
  const before = await whole(world)
  let asked = 0
  for (const cell of cells()) {
    const { who, operation } = cell.route
    if (cell.names === null) continue
    const right = [...(who === 'human' ? [] : agents), ...(who === 'agent' ? [] : people)]
    for (const as of right) {
      const nothing = await call(cell, as, NOBODY)
      assertRefused(nothing, 404, 'not_found')
      if (theirs[operation]!.includes(as)) continue
      const others = await call(cell, as, own)
      assertRefused(others, 404, 'not_found')
      // An actor that may look at it knows that it is there.
      if (cell.names === 'request' && theirs['execution/request.get']!.includes(as)) continue
      assert.equal(others.text.replaceAll(own[cell.names], NOBODY[cell.names]), nothing.text, `${operation} as ${as}`)
      asked++
    }
  }
  assert.ok(asked > 20, String(asked))
  assert.deepEqual(await whole(world), before)
})

test('of the right kind, and theirs: they are let in', async (t) => {
  for (const cell of cells()) {
    const { who, operation } = cell.route
    const right = [...(who === 'human' ? [] : agents), ...(who === 'agent' ? [] : people)]
    for (const as of cell.names === null ? right : theirs[operation]!) {
      const { call } = await stage(t)
      const { status, text } = await call(cell, as)
      // The agent that asks is in the body: the others may not ask in its name, and the project's key may.
      const isNamed = operation === 'execution/request.create' && (as === 'robin' || as === 'spy')
      // People whom she does not know she does not name.
      if (operation === 'execution/rule.add' && as === 'mallory') assert.equal(status, 404, text)
      else if (isNamed) assert.equal(status, 401, `${operation} as ${as}: ${text}`)
      else
        assert.ok(
          status !== 401 && status !== 403 && status !== 404 && (status < 500 || status === 503),
          `${operation} as ${as}: ${status} ${text}`,
        )
    }
  }
})
