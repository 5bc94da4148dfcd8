// The PostgreSQL store where the way to its database breaks, where another server writes, and where the database says no.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { describe, test, type TestContext } from 'node:test'
import pg from 'pg'
import type { Refusal } from '#kernel/declare/errors.ts'
import { differenceIn } from '#kernel/log/hash-chain.ts'
import type { Batch, Store } from '#kernel/log/store.ts'
import type { Blobs } from '#kernel/ports/blobs.ts'
import { delegation } from '#protocols/delegation/index.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { postgresStore, type PostgresOptions, type PostgresStore } from '#stores/postgres/index.ts'
import { postgresBlobs } from '#stores/postgres/blobs.ts'
import { numbers, texts } from '#stores/postgres/columns.ts'
import { blobPool, createPins, within } from '#stores/postgres/pins.ts'
import { MIGRATING, migrate, steps } from '#stores/postgres/schema.ts'
import { fromDb, inDb } from '#stores/postgres/text.ts'
import { OtherSecret, wrappedValues } from '#stores/postgres/wrapped-values.ts'
import { createExamination } from '#workers/upkeep/examination.ts'
import { batchOf, factOf } from '../support/in-process/batches.ts'
import { startCutProxy, type CutManner, type CutPoint } from '../support/faults/cut-proxy.ts'
import { createWorld } from '../support/in-process/world.ts'
import { inDatabase, isPostgresOff, newDatabase, sharedPostgres } from '../support/as-processes/postgres.ts'
import { SOON_MS } from '../support/over-sockets/soon.ts'

const writing = (key: string, version: number): Batch =>
  batchOf({
    ...(version === 0 ? { create: new Set([key]) } : { expect: new Map([[key, version]]) }),
    facts: [factOf({ [key]: { n: version + 1 } })],
  })

async function databaseFor(t: TestContext): Promise<string> {
  const { url, drop } = await newDatabase()
  t.after(drop)
  return url
}
async function open(t: TestContext, url: string, options: PostgresOptions = {}): Promise<PostgresStore> {
  const store = await postgresStore(url, options)
  t.after(() => store.close())
  return store
}

async function assertWhole(store: Store, count: number): Promise<void> {
  const facts = await store.facts({ by: 'position' }, { after: null, limit: 1_000 })
  assert.deepEqual(
    facts.map(({ position }) => position),
    Array.from({ length: count }, (_, i) => i + 1),
  )
  for (const [i, fact] of facts.entries()) assert.equal(differenceIn(fact, facts[i - 1]?.hash ?? ''), null)
}

describe('a connection that is cut', { skip: isPostgresOff }, () => {
  for (const point of ['lock', 'commit', 'answer'] as const satisfies CutPoint[])
    for (const manner of ['closed', 'silent'] as const satisfies CutManner[])
      test(`at the ${point}, ${manner}: the commit is there once, or was refused and is not there`, async (t) => {
        const url = await databaseFor(t)
        const proxy = await startCutProxy(t, url)
        let unknown = 0
        const store = await open(t, proxy.url, { unknown: () => void unknown++ })
        const direct = await open(t, url)
        await store.commit(writing('k/0', 0))
        proxy.arm(point, manner)
        const outcome = await store.commit(writing('k/1', 0)).then(
          (sealed) => sealed[0]!.position,
          (error: Refusal) => error.code,
        )
        assert.equal(proxy.isArmed(), false, 'the cut has happened')
        await direct.fresh()
        const isThere = (await direct.read(['k/1']))[0] !== undefined
        // A silence before COMMIT was sent is refused in time; whatever else happens is found out.
        assert.equal(outcome, isThere ? 2 : 'UNAVAILABLE')
        if (point !== 'lock') assert.ok(isThere && unknown === 1)
        await store.commit(writing('k/2', 0))
        await assertWhole(direct, isThere ? 3 : 2)
      })

  test('for long, silent: reads and changes are refused together, and answered again afterwards', async (t) => {
    const url = await databaseFor(t)
    const proxy = await startCutProxy(t, url)
    const store = await open(t, proxy.url)
    await store.commit(writing('k/0', 0))
    await store.fresh()
    proxy.sever('silent')
    const began = performance.now()
    const codes = await Promise.all(
      [Promise.resolve(store.fresh()), Promise.resolve(store.fresh()), store.commit(writing('k/1', 0))].map((work) =>
        work.then(
          () => 'ok',
          (error: Refusal) => error.code,
        ),
      ),
    )
    assert.deepEqual(codes, ['UNAVAILABLE', 'UNAVAILABLE', 'UNAVAILABLE'])
    // Less than two bounds of five seconds: a call that comes while others are asking waits no longer than they do.
    assert.ok(performance.now() - began < 9_500, `${performance.now() - began} ms`)
    assert.equal(store.isReachable(), false)
    proxy.open()
    await store.fresh()
    await store.commit(writing('k/1', 0))
    await assertWhole(store, 2)
  })

  test('with no server to ask: the outcome is unknown, and says so', async (t) => {
    const url = await databaseFor(t)
    const proxy = await startCutProxy(t, url)
    const store = await open(t, proxy.url, { unknownMs: 800 })
    await store.commit(writing('k/0', 0))
    proxy.arm('answer', 'closed')
    const commit = store.commit(writing('k/1', 0))
    setTimeout(() => proxy.sever('closed'), 100)
    await assert.rejects(commit, (error: Refusal) => {
      assert.deepEqual([error.code, (error.details as { outcome?: string }).outcome], ['UNAVAILABLE', 'unknown'])
      return true
    })
    proxy.open()
    await store.fresh()
    assert.equal((await store.read(['k/1']))[0]?.version, 1, 'it was there all the same')
  })
})

describe('two servers on one database', { skip: isPostgresOff }, () => {
  test('a read after the barrier sees what the other has acknowledged, and a loser reads the winner', async (t) => {
    const url = await databaseFor(t)
    const [a, b] = [await open(t, url), await open(t, url)]
    await a.commit(writing('k', 0))
    for (let version = 1; version <= 60; version++) {
      const [one, other] = version % 2 === 0 ? [a, b] : [b, a]
      await one.fresh()
      assert.equal((await one.read(['k']))[0]!.version, version)
      await one.commit(writing('k', version))
      await assert.rejects(other.commit(writing('k', version)), { code: 'CONFLICT' })
      assert.equal((await other.read(['k']))[0]!.version, version + 1, 'no barrier is needed by who lost')
    }
    await assertWhole(a, 61)
  })

  for (const listens of [true, false])
    test(`hears of the other ${listens ? 'by notification' : 'by looking'}`, async (t) => {
      const url = await databaseFor(t)
      const [a, b] = [await open(t, url), await open(t, url, { listens })]
      await new Promise((done) => setTimeout(done, 1_200))
      assert.equal(b.isHeard(), listens)
      for (let i = 0; i < 5; i++) {
        const heard = new Promise<number>((done) => {
          const leave = b.subscribe(({ keys }) => {
            if (keys !== 'all' && !keys.includes(`k/${i}`)) return
            leave()
            done(performance.now())
          })
        })
        await a.commit(writing(`k/${i}`, 0))
        const began = performance.now()
        const ms = (await heard) - began
        assert.ok(ms < SOON_MS, `${ms} ms`)
      }
    })

  test('concurrent commits of both servers take turns, without a gap or a false conflict', async (t) => {
    const url = await databaseFor(t)
    const stores = [await open(t, url), await open(t, url), await open(t, url)]
    await Promise.all(stores.flatMap((store, s) => Array.from({ length: 40 }, (_, i) => store.commit(writing(`k/${s}/${i}`, 0)))))
    await assertWhole(stores[0]!, 120)
  })

  test('one that missed more than is kept forgets everything, and reads what is there', async (t) => {
    const url = await databaseFor(t)
    const [a, b] = [await open(t, url), await open(t, url, { listens: false })]
    await a.commit(writing('k', 0))
    await b.fresh()
    assert.equal((await b.read(['k']))[0]!.version, 1)
    for (let version = 1; version < 5; version++) await a.commit(writing('k', version))
    await inDatabase(url, 'DELETE FROM countersign.delegated_groups')
    await b.fresh()
    assert.equal((await b.read(['k']))[0]!.version, 5)
  })

  test('a writer that is stopped between its two round trips holds up the others for three seconds at most', async (t) => {
    const url = await databaseFor(t)
    const store = await open(t, url)
    await store.commit(writing('k/0', 0))
    const pg = (await import('pg')).default
    const paused = new pg.Client({ connectionString: url })
    await paused.connect()
    paused.on('error', () => undefined)
    await paused.query(`SET idle_in_transaction_session_timeout = '3s'`)
    await paused.query('BEGIN')
    await paused.query('SELECT 1 FROM countersign.head FOR UPDATE')
    const began = performance.now()
    await store.commit(writing('k/1', 0))
    assert.ok(performance.now() - began < SOON_MS)
    await paused.end().catch(() => undefined)
  })
})

describe('the database says no', { skip: isPostgresOff }, () => {
  test('an index entry with NUL keeps its order, and one that is too long is refused alone and in words', async (t) => {
    for (const text of ['', 'a', '\0', '\u{1}', 'a\0\u{1}b\u{2}', '\u{1}\u{1}']) assert.equal(fromDb(inDb(text)), text)
    const store = await open(t, await databaseFor(t))
    const entering = (key: string, entry: string): Batch =>
      batchOf({ create: new Set([key]), puts: [{ key, value: {}, text: '{}' }], add: [entry] })
    const results = await Promise.allSettled([
      store.commit(entering('k/1', 'e\0x')),
      store.commit(entering('k/2', `e\0${'x'.repeat(2_700)}`)),
      store.commit(entering('k/3', 'e\0y')),
    ])
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    )
    const { code, message } = (results[1] as PromiseRejectedResult).reason as Refusal
    assert.equal(code, 'TOO_LARGE')
    assert.match(message, /^an index entry of 2702 bytes is longer than the database takes: e x+$/)
    // Each NUL is two bytes there.
    await assert.rejects(store.commit(entering('k/4', `e${'\0'.repeat(2_000)}`)), { code: 'TOO_LARGE' })
    assert.deepEqual(await store.scan('e\0', 'e\u{1}', 10), ['e\0x', 'e\0y'])
  })

  test('COMMIT of a group that failed is answered as ROLLBACK: nothing of it counts', async (t) => {
    const url = await databaseFor(t)
    const store = await open(t, url)
    await store.commit(writing('k/0', 0))
    await inDatabase(url, 'ALTER TABLE countersign.facts ADD CONSTRAINT none CHECK (position < 2)')
    await assert.rejects(store.commit(writing('k/1', 0)), /none/)
    await inDatabase(url, 'ALTER TABLE countersign.facts DROP CONSTRAINT none')
    await store.commit(writing('k/1', 0))
    await assertWhole(store, 2)
  })

  test('it became read-only: changes are refused in words, and taken again afterwards', async (t) => {
    const url = await databaseFor(t)
    const store = await open(t, url)
    const name = new URL(url).pathname.slice(1)
    const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}' AND pid <> pg_backend_pid()`
    await inDatabase(url, `ALTER DATABASE ${name} SET default_transaction_read_only = on`)
    await inDatabase(url, end)
    await assert.rejects(store.commit(writing('k/1', 0)), { code: 'UNAVAILABLE', message: /can only be read/ })
    await assert.rejects(Promise.resolve(store.fresh()), { code: 'UNAVAILABLE' }, 'what a standby says may be old')
    const server = (await sharedPostgres())!
    await inDatabase(server, `ALTER DATABASE ${name} RESET default_transaction_read_only`)
    await inDatabase(server, end)
    await store.commit(writing('k/1', 0))
    await assertWhole(store, 1)
  })
})

test('a connection for bytes that ends in use fails what is on it, and nothing else', { skip: isPostgresOff }, async (t) => {
  const pool = blobPool(await databaseFor(t), 'test')
  t.after(() => pool.end())
  const ended = within(pool, async (client) => {
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    await pool.query('SELECT pg_terminate_backend($1)', [rows[0]!.pid])
    // It ends while no query is in flight, so only its error listener is called.
    await new Promise((done) => setTimeout(done, 200))
    await client.query('SELECT 1')
  })
  await assert.rejects(ended)
  assert.equal((await pool.query('SELECT 1 AS one')).rows.length, 1)
})

test('columns arrive as they were given: quotes, nulls, empty ones, numbers beyond 32 bits', { skip: isPostgresOff }, async (t) => {
  const store = await open(t, await databaseFor(t))
  const text = 'SELECT to_json($1::text[])::text AS message, to_json($2::bigint[])::text AS counted'
  for (const [message, counted] of [
    [
      ['', '"a\\b"', '{x,y}', null, 'é 𝄞\n'],
      [0, null, 2 ** 32 + 7, Number.MAX_SAFE_INTEGER, -5],
    ],
    [[], []],
  ] as const) {
    const [row] = await store.query<{ message: string; counted: string }>('columns', text, [texts(message), numbers(counted)])
    assert.deepEqual([JSON.parse(row!.message), JSON.parse(row!.counted)], [message, counted])
  }
})

for (const few of [0, 3])
  test(`a question that was first asked of ${few} rows reads only those that it is about`, { skip: isPostgresOff }, async (t) => {
    const url = await databaseFor(t)
    const store = await open(t, url)
    const questions = async (): Promise<void> => {
      await store.facts({ by: 'position' }, { after: 980, limit: 128 })
      await store.atRest.document('k/1')
      await store.keys('k/', 'k/1000', 5)
    }
    const read = async (): Promise<number> => {
      await store.query('flush', 'SELECT pg_stat_force_next_flush()', [])
      await store.query('flushed', 'SELECT 1 AS one', [])
      const sum = `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::float8 AS n FROM pg_stat_user_tables
        WHERE relname IN ('facts', 'images', 'docs')`
      return (await inDatabase(url, sum))[0]!['n'] as number
    }
    for (let i = 0; i < few; i++) await store.commit(writing(`few/${i}`, 0))
    // The database counts what there is now and then only: a plan of before stays for some time.
    if (few > 0) await inDatabase(url, 'ANALYZE')
    await questions()
    await Promise.all(Array.from({ length: 1_000 }, (_, i) => store.commit(writing(`k/${i}`, 0))))
    const before = await read()
    for (let i = 0; i < 5; i++) await questions()
    const rows = (await read()) - before
    assert.ok(rows >= 200 && rows < 600, `${rows} rows were read`)
  })

describe('migrations', { skip: isPostgresOff }, () => {
  test('servers that start concurrently migrate once, and a newer schema is refused', async (t) => {
    const url = await databaseFor(t)
    await Promise.all(Array.from({ length: 6 }, () => migrate(url)))
    const rows = await inDatabase(url, 'SELECT n FROM countersign.migrations ORDER BY n')
    assert.deepEqual(
      rows.map(({ n }) => Number(n)),
      steps.map((_, i) => i + 1),
    )
    await assert.rejects(migrate(url, steps.slice(0, -1)), /brought to schema \d+ by a newer Countersign/)
  })

  test('a start with nothing to migrate takes no lock, and one that waits for a stranger names it', async (t) => {
    const url = await databaseFor(t)
    const stranger = new pg.Client({ connectionString: url, application_name: 'curious' })
    stranger.on('error', () => undefined)
    await stranger.connect()
    t.after(() => stranger.end())
    await stranger.query('SELECT pg_advisory_lock($1)', [MIGRATING])
    const waits: string[] = []
    await assert.rejects(
      migrate(url, steps, undefined, 0, (text) => waits.push(text)),
      /session \d+ of role postgres holds advisory lock \d+\. End that session/,
    )
    assert.deepEqual(waits, ['waiting for another server that migrates the database'])
    await stranger.query('SELECT pg_advisory_unlock_all()')
    const progress: string[] = []
    await migrate(url, steps.slice(0, 3), undefined, undefined, (text) => progress.push(text))
    await migrate(url, steps, undefined, undefined, (text) => progress.push(text))
    await migrate(url, steps, undefined, undefined, (text) => progress.push(text))
    assert.deepEqual(progress, ['creating the tables of the database', `migrating the database from schema 3 to ${steps.length}`])
    await stranger.query('SELECT pg_advisory_lock($1)', [MIGRATING])
    await migrate(url, steps, undefined, 0)
  })

  test('entries of open requests get their place in the one order, as in a new database', async (t) => {
    const url = await databaseFor(t)
    const world = await createWorld({ store: await open(t, url) })
    const ask = async (priority: string, risk: string): Promise<string> => {
      const payload = { item: `${priority} ${risk}`, details: {} }
      const input = { action: 'APPROVE', payload, priority, risk, timeout_seconds: 60 }
      return (await world.call('devin', 'execution/request.create', input)).request.id
    }
    await world.call('owner', 'execution/group.set', { name: 'ops', members: ['user_bob'] })
    for (const priority of ['critical', 'high', 'normal', 'low']) for (const risk of ['R1', 'R5']) await ask(priority, risk)
    await world.call('alice', 'execution/request.escalate', { request_id: await ask('low', 'R2'), to: ['group:ops'] })
    const late = await ask('low', 'R3')
    const until = new Date(world.kernel.now() + 30_000).toISOString()
    await world.call('alice', 'execution/request.snooze', { request_id: await ask('normal', 'R3'), until })
    world.advance(61_000)
    await world.call('system', 'execution/request.expire', { request_id: late })
    const entries = (): Promise<object[]> =>
      inDatabase(
        url,
        `SELECT entry FROM countersign.entries UNION ALL SELECT prefix || ' ' || count FROM countersign.counts WHERE count > 0 ORDER BY 1`,
      )
    const wanted = await entries()
    // As schema 5 had them: one entry by turn and one without, each counted by itself.
    const opened = `FROM (SELECT entry, string_to_array(entry, E'\\x01\\x01') AS p FROM countersign.entries
      WHERE split_part(entry, E'\\x01\\x01', 1) = 'execution.request.open') o`
    await inDatabase(
      url,
      `INSERT INTO countersign.entries SELECT replace(entry, 'request.open', 'request.urgent') ${opened} WHERE p[3] <> '9';
       CREATE TEMPORARY TABLE once AS SELECT entry, array_to_string(CASE WHEN p[3] = '9' THEN p[1:3] || p[5:] ELSE p[1:2] || p[4:] END, E'\\x01\\x01') AS was ${opened};
       DELETE FROM countersign.entries e USING once WHERE e.entry = once.entry; INSERT INTO countersign.entries SELECT was FROM once;
       ALTER TABLE countersign.delegated_groups RENAME TO sealed_groups`,
    )
    // As schema 3 had them: critical or not; and those that are counted by priority in the order of their age.
    const inParts = `(SELECT entry AS was, string_to_array(entry, E'\\x01\\x01') AS p FROM countersign.entries WHERE entry LIKE 'execution.request.%') o`
    const older = (place: string, names: string, but: string): string =>
      `UPDATE countersign.entries SET entry = array_to_string(${place}, E'\\x01\\x01') FROM ${inParts}
        WHERE entry = was AND p[1] IN (${names.replaceAll(/(\w+)/g, "'execution.request.$1'")}) AND ${but}`
    const rank = `(CASE WHEN p[3] < '2' THEN '0' WHEN p[3] IN ('2', '5') THEN '1' WHEN p[3] IN ('3', '6') THEN '2' ELSE '3' END)`
    await inDatabase(url, older(`p[1:3] || (CASE WHEN p[4] < '2' THEN '0' ELSE '1' END) || p[5:]`, 'urgent, called', 'true'))
    await inDatabase(url, older(`p[1:2] || ${rank} || p[6:]`, 'open, twice, claimed', `p[3] <> '9'`))
    await inDatabase(
      url,
      `DELETE FROM countersign.counts WHERE prefix ~ '^execution.request.(open|twice|claimed)' AND prefix !~ E'\\x01\\x019\\x01'`,
    )
    assert.notDeepEqual(await entries(), wanted)
    await inDatabase(url, `SET search_path = countersign; ${steps[3]!}; ${steps[5]!}; ${steps[6]!}`)
    assert.deepEqual(await entries(), wanted)
  })

  test('runs get the entry of the agent that delegated them, as in a new database', async (t) => {
    const url = await databaseFor(t)
    const first = await createWorld({ store: await open(t, url) })
    const { run } = await first.play(delegation.scenes['delegated']!)
    await first.store.close()
    const entries = (): Promise<object[]> => inDatabase(url, 'SELECT entry FROM countersign.entries ORDER BY 1')
    const wanted = await entries()
    await inDatabase(
      url,
      `DELETE FROM countersign.entries WHERE entry LIKE 'delegation.run.delegated%'; DELETE FROM countersign.migrations WHERE n = 7;
       ALTER TABLE countersign.delegated_groups RENAME TO counted_groups`,
    )
    assert.equal((await entries()).length, wanted.length - 1)
    const later = await createWorld({ store: await open(t, url), populated: false, startMs: Date.UTC(2026, 1), seed: 2 })
    assert.deepEqual(await entries(), wanted)
    const { items } = await later.call('devin', 'delegation/run.list', { agent_id: 'agent_robin' })
    assert.deepEqual(
      items.map(({ id }: { id: string }) => id),
      [run.id],
    )
  })

  test('a server of the release before that waits for its turn comes in between no two steps', async (t) => {
    const url = await databaseFor(t)
    await migrate(url, steps.slice(0, 3))
    const connected = async (name: string): Promise<pg.Client> => {
      const client = new pg.Client({ connectionString: url, application_name: name })
      client.on('error', () => undefined)
      await client.connect()
      await client.query('SET search_path = countersign')
      return client
    }
    const waiting = async (name: string): Promise<void> => {
      const text = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = $1`
      while ((await inDatabase(url, text, [name])).length === 0) await setImmediate()
    }
    const [first, old] = [await connected('first'), await connected('old')]
    await first.query('BEGIN; SELECT 1 FROM head FOR UPDATE')
    const migrated = migrate(url)
    await waiting('countersign migrations')
    const written = old.query(
      `BEGIN; SELECT 1 FROM head FOR UPDATE; INSERT INTO entries VALUES ('in the older order'); INSERT INTO groups VALUES (1, 'a', 'a', now(), ''); COMMIT`,
    )
    written.catch(() => undefined)
    await waiting('old')
    await first.query('COMMIT')
    await migrated
    await assert.rejects(written, /relation "groups" does not exist/)
    assert.deepEqual(await inDatabase(url, 'SELECT entry FROM countersign.entries'), [])
    await Promise.all([first.end(), old.end()])
  })

  for (const [end, words] of [
    ['finishes', 'SELECT pg_advisory_unlock_all()'],
    [
      'gives it up',
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity 
        WHERE datname = current_database() AND application_name = 'countersign migrations' AND wait_event = 'advisory'`,
    ],
  ] as const)
    test(`a start that is killed while it migrates, and the database ${end}: the next start waits for it, and finds all steps or none`, async (t) => {
      const url = await databaseFor(t)
      const held = 77
      const all = [...steps, `SELECT pg_advisory_xact_lock(${held})`]
      await migrate(url, steps.slice(0, 5))
      const old = ['execution.request.urgent', 'agent_devin', 'project_default', '2', 'request'].join('\x01\x01')
      await inDatabase(url, 'INSERT INTO countersign.entries VALUES ($1)', [old])
      const state = async (): Promise<object> => ({
        entries: (await inDatabase(url, 'SELECT entry FROM countersign.entries')).map(({ entry }) => String(entry).split('\x01\x01')[0]),
        noted: Number((await inDatabase(url, 'SELECT max(n) AS n FROM countersign.migrations'))[0]!['n']),
      })
      const before = new pg.Client({ connectionString: url })
      before.on('error', () => undefined)
      await before.connect()
      t.after(() => before.end())
      await before.query('SELECT pg_advisory_lock($1)', [held])
      const script = `import { migrate } from '#stores/postgres/schema.ts'
        await migrate(process.env.URL, ${JSON.stringify(all)})`
      const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
        cwd: join(import.meta.dirname, '../..'),
        env: { ...process.env, URL: url },
        stdio: 'inherit',
      })
      const isWaiting = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`
      while ((await inDatabase(url, isWaiting)).length === 0) await setImmediate()
      child.kill('SIGKILL')
      await once(child, 'exit')
      const waits: string[] = []
      const next = migrate(url, all, undefined, undefined, (text) => waits.push(text))
      while (waits.length === 0) await setImmediate()
      assert.deepEqual(await state(), { entries: ['execution.request.urgent'], noted: 5 })
      await before.query(words)
      await before.query('SELECT pg_advisory_unlock_all()')
      await next
      assert.deepEqual(await state(), { entries: ['execution.request.open'], noted: all.length })
      const isFinished = end === 'finishes'
      assert.deepEqual(waits.slice(1), isFinished ? [] : [`migrating the database from schema 5 to ${all.length}`])
    })

  test('a step that fails leaves nothing, and is done by the next start', async (t) => {
    const url = await databaseFor(t)
    await migrate(url)
    await assert.rejects(migrate(url, [...steps, 'CREATE TABLE extra (n bigint); SELECT 1 / 0']), /division by zero/)
    const [row] = await inDatabase(url, `SELECT to_regclass('countersign.extra') AS extra, max(n) AS n FROM countersign.migrations`)
    assert.deepEqual([row!['extra'], Number(row!['n'])], [null, steps.length])
    await migrate(url, [...steps, 'CREATE TABLE extra (n bigint)'])
  })
})

test(
  'counts and tallies that were changed by hand are named by an examination, and nothing else is',
  { skip: isPostgresOff },
  async (t) => {
    const url = await databaseFor(t)
    const { call, store } = await createWorld({ store: await open(t, url) })
    const payload = { item: 'a plan', details: {} }
    const { request } = await call('devin', 'execution/request.create', { action: 'APPROVE', payload })
    await call('alice', 'execution/request.resolve', { request_id: request.id, result: 'approved' })
    await call('devin', 'execution/request.create', { action: 'APPROVE', payload })
    const found = async (): Promise<string[]> => {
      const examination = createExamination({ store })
      while (!(await examination.next(1_000, Date)));
      return examination.found().map(({ what, how }) => `${what}: ${how}`)
    }
    assert.deepEqual(await found(), [])
    const changed = `UPDATE countersign.counts SET count = count + 7 WHERE count > 0 AND prefix ~ '^execution.request.(open|trends)' RETURNING prefix`
    const prefixes = await inDatabase(url, changed)
    const named = await found()
    assert.equal(named.length, prefixes.length, named.join('\n'))
    for (const [kind, what] of [
      ['open', 'entries'],
      ['trends', 'documents'],
    ] as const)
      assert.ok(
        named.some((text) => new RegExp(`^execution.request.${kind} .*: \\d+ ${what} are counted, but there are \\d+$`).test(text)),
        named.join('\n'),
      )
  },
)

test('wrapped values open under their own secret and name only, and change by version', { skip: isPostgresOff }, async (t) => {
  const url = await databaseFor(t)
  const { query } = await open(t, url)
  const values = wrappedValues(query, Buffer.alloc(32, 1))
  assert.equal(await values.write('a', 'hush', 0), true)
  assert.equal(await values.write('a', 'other', 0), false, 'another server was faster')
  assert.deepEqual(await values.read('a'), { version: 1, text: 'hush' })
  assert.equal(await values.write('a', 'next', 1), true)
  assert.deepEqual(await values.read('a'), { version: 2, text: 'next' })
  await assert.rejects(wrappedValues(query, Buffer.alloc(32, 2)).read('a'), OtherSecret)
  await inDatabase(url, `INSERT INTO countersign.wrapped SELECT 'b', version, value FROM countersign.wrapped`)
  await assert.rejects(values.read('b'), OtherSecret, 'a value under another name does not open')
  const [row] = await inDatabase(url, `SELECT value FROM countersign.wrapped WHERE name = 'a'`)
  assert.ok(!Buffer.from(String(row!['value']), 'base64url').toString('latin1').includes('next'))
})

describe('bytes that several servers share', { skip: isPostgresOff }, () => {
  const portionsOf = (text: string): AsyncIterable<Uint8Array> => Readable.from([Buffer.from(text)])
  async function serversOn(t: TestContext) {
    const url = await databaseFor(t)
    await migrate(url)
    const folder = mkdtempSync(join(tmpdir(), 'shared-bytes-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const pools = [blobPool(url, 'one'), blobPool(url, 'two')] as const
    t.after(() => Promise.all(pools.map((pool) => pool.end())))
    const fatal = (error: unknown): never => {
      throw error
    }
    return {
      url,
      inDatabase: pools.map((pool) => postgresBlobs(pool, createPins(pool))) as [Blobs, Blobs],
      inFolder: (await Promise.all(pools.map((pool) => openBlobs(folder, { fatal, pins: createPins(pool) })))) as [Blobs, Blobs],
    }
  }
  const MAX = 1_000
  const heldOf = (checksum: string): string => `SELECT 1 FROM countersign.blob_pins WHERE checksum = '${checksum}'`

  for (const where of ['inDatabase', 'inFolder'] as const)
    test(`${where}: discarded bytes are removed immediately, unless another upload on any server has sent them since`, async (t) => {
      const servers = await serversOn(t)
      const [one, two] = servers[where]
      const first = await one.put(portionsOf('hello world'), {}, MAX)
      const second = await two.put(portionsOf('hello world'), {}, MAX)
      second.release()
      // The second is not held any more: something refers to it.
      while ((await inDatabase(servers.url, heldOf(first.checksum))).length > 1) await setImmediate()
      await first.discard()
      assert.equal(await two.size(first.checksum), 11, 'the second sender counts on them')
      // Concurrently: the first pin does not decide whose bytes are stored.
      for (let i = 0; i < 6; i++) {
        const [left, right] = await Promise.all([one, two].map((blobs) => blobs.put(portionsOf(`both ${i}`), {}, MAX)))
        const [kept, dropped] = i % 2 === 0 ? [left!, right!] : [right!, left!]
        kept.release()
        while ((await inDatabase(servers.url, heldOf(kept.checksum))).length > 1) await setImmediate()
        await dropped.discard()
        assert.equal(await one.size(kept.checksum), 6)
      }
      const alone = await one.put(portionsOf('alone'), {}, MAX)
      await alone.discard()
      assert.equal(await one.size(alone.checksum), null)
    })

  test('two concurrent uploads of the same bytes do not discard each other’s', async (t) => {
    const servers = await serversOn(t)
    const [one, two] = servers.inDatabase
    for (let i = 0; i < 10; i++) {
      const both = await Promise.all([one, two].map(async (blobs) => blobs.put(portionsOf(`twice ${i}`), {}, MAX)))
      for (const held of both) held.release()
    }
    const text = `SELECT count(*) FILTER (WHERE checksum LIKE 'changed %') AS aside, count(*) AS n FROM countersign.blobs`
    const [row] = await inDatabase(servers.url, text)
    assert.deepEqual([Number(row!['aside']), Number(row!['n'])], [0, 10])
  })
})
