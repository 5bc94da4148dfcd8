// The tables of a database, as a numbered list of steps. A released step is never changed, and steps only add, so servers of the previous
// release continue to work; only steps 5 to 7 shut them out. `COLLATE "C"` compares texts by their bytes, in every locale.
import type pg from 'pg'
import { connectAlone, SCHEMA } from './link.ts'

export const steps: readonly string[] = [
  // The one row of `head` is locked by every group: writers take turns. Rows that change all the time stay on their page (fillfactor).
  `CREATE TABLE head (
     one boolean PRIMARY KEY DEFAULT TRUE CHECK (one), groups bigint NOT NULL, position bigint NOT NULL, image bigint NOT NULL,
     touched bigint NOT NULL) WITH (fillfactor = 10);
   INSERT INTO head (groups, position, image, touched) VALUES (0, 0, 0, 0);
   CREATE TABLE groups (
     n bigint PRIMARY KEY, id text COLLATE "C" NOT NULL, node text COLLATE "C" NOT NULL, at timestamptz NOT NULL DEFAULT now(),
     hint text NOT NULL);
   CREATE UNIQUE INDEX groups_id ON groups (id);
   CREATE TABLE chains (scope text COLLATE "C" PRIMARY KEY, seq bigint NOT NULL, hash text NOT NULL, at text COLLATE "C" NOT NULL)
     WITH (fillfactor = 50);
   CREATE TABLE facts (
     position bigint PRIMARY KEY, scope text COLLATE "C" NOT NULL, seq bigint NOT NULL, at text COLLATE "C" NOT NULL,
     actor text COLLATE "C" NOT NULL, task text COLLATE "C", root text COLLATE "C", hash text NOT NULL, line text NOT NULL);
   CREATE UNIQUE INDEX facts_scope ON facts (scope, seq);
   CREATE INDEX facts_actor ON facts (scope, actor, seq);
   CREATE INDEX facts_task ON facts (task, position) WHERE task IS NOT NULL;
   CREATE INDEX facts_root ON facts (root, position) WHERE root <> task;
   CREATE TABLE images (
     id bigint PRIMARY KEY, position bigint NOT NULL, key text COLLATE "C" NOT NULL, version bigint NOT NULL, previous bigint,
     salt text NOT NULL, text text);
   CREATE INDEX images_position ON images (position);
   CREATE UNIQUE INDEX images_key ON images (key, version);
   CREATE TABLE docs (key text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, image bigint, text text, tag text) WITH (fillfactor = 70);
   CREATE TABLE entries (entry text COLLATE "C" PRIMARY KEY);
   CREATE TABLE counts (prefix text COLLATE "C" PRIMARY KEY, count bigint NOT NULL) WITH (fillfactor = 50)`,
  // Values that only servers with the secret can read.
  `CREATE TABLE wrapped (name text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, value text NOT NULL)`,
  // Bytes by their checksum; a row without \`size\` is being uploaded. A pin holds bytes until it expires.
  `CREATE TABLE blobs (
     id text COLLATE "C" PRIMARY KEY, checksum text COLLATE "C", size bigint, at timestamptz NOT NULL DEFAULT now());
   CREATE UNIQUE INDEX blobs_checksum ON blobs (checksum) WHERE checksum IS NOT NULL;
   CREATE TABLE blob_chunks (blob text COLLATE "C" NOT NULL, n bigint NOT NULL, bytes bytea NOT NULL, PRIMARY KEY (blob, n));
   ALTER TABLE blob_chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;
   CREATE TABLE blob_pins (
     id text COLLATE "C" PRIMARY KEY, checksum text COLLATE "C" NOT NULL, until timestamptz NOT NULL);
   CREATE INDEX blob_pins_checksum ON blob_pins (checksum)`,
  // Open requests have one order: tier, risk, deadline, age. It follows whose turn it is (\`urgent\`), the group (\`called\`), or the person
  // alone (the others, which had priority and age, and are counted by the tier now).
  `SELECT 1 FROM head WHERE one FOR UPDATE;
   CREATE TEMPORARY TABLE moved ON COMMIT DROP AS
     SELECT s.entry, array_to_string(s.parts[1:s.kept] || ARRAY[
         (CASE s.request->>'priority' WHEN 'critical' THEN 1 WHEN 'high' THEN 5 WHEN 'normal' THEN 6 ELSE 7 END
           - CASE WHEN s.request->>'overdue' = 'false' AND s.request->>'escalated_at' IS NULL THEN 0
               WHEN s.request->>'priority' = 'critical' THEN 1 ELSE 3 END)::text,
         coalesce((9 - substr(s.request->>'risk', 2)::int)::text, '9'), coalesce(s.request->>'expires_at', '~'),
         s.request->>'created_at', s.parts[array_length(s.parts, 1)]], E'\\x01\\x01') AS next
     FROM (SELECT r.entry, r.parts, r.kept, coalesce(d.text, i.text)::json AS request
       FROM (SELECT entry, parts, CASE WHEN parts[1] IN ('execution.request.urgent', 'execution.request.called') THEN 3 ELSE 2 END AS kept
         FROM (SELECT entry, string_to_array(entry, E'\\x01\\x01') AS parts FROM entries
           WHERE entry > 'execution.request.' AND entry < 'execution.request/') e
         WHERE parts[1] IN ('execution.request.urgent', 'execution.request.called')
            OR (parts[1] IN ('execution.request.open', 'execution.request.twice', 'execution.request.claimed') AND parts[3] <> '9')) r
       JOIN docs d ON d.key = 'execution.request/' || r.parts[array_length(r.parts, 1)] LEFT JOIN images i ON i.id = d.image) s;
   DELETE FROM entries e USING moved m WHERE e.entry = m.entry;
   INSERT INTO entries SELECT next FROM moved;
   DELETE FROM counts WHERE split_part(prefix, E'\\x01\\x01', 1) IN
     ('execution.request.open', 'execution.request.twice', 'execution.request.claimed') AND split_part(prefix, E'\\x01\\x01', 3) <> '9';
   INSERT INTO counts SELECT array_to_string((string_to_array(next, E'\\x01\\x01'))[1:3], E'\\x01\\x01') || E'\\x01\\x01', count(*) FROM moved
     WHERE split_part(next, E'\\x01\\x01', 1) NOT IN ('execution.request.urgent', 'execution.request.called') GROUP BY 1`,
  // A seal for each group of facts. Servers of the previous release write facts without a seal and must be kept from writing: they do not find
  // their table, and answer 503 until they are restarted.
  `CREATE TABLE seals (
     last bigint PRIMARY KEY, first bigint NOT NULL, before text NOT NULL, hashes text COLLATE "C" NOT NULL, tag text NOT NULL);
   ALTER TABLE seals ALTER COLUMN hashes SET STORAGE EXTERNAL;
   ALTER TABLE head ADD COLUMN seal text NOT NULL DEFAULT '';
   ALTER TABLE groups RENAME TO sealed_groups`,
  // Open requests have one entry for each inbox: turn, tier, risk, deadline, age. Outcomes, trends and the like are counted without entries.
  // Servers of the release before would write the old entries, so they are shut out again.
  `CREATE TEMPORARY TABLE was ON COMMIT DROP AS
     SELECT entry, parts, split_part(parts[1], '.', 3) AS name FROM
       (SELECT entry, string_to_array(entry, E'\\x01\\x01') AS parts FROM entries
         WHERE entry > 'execution.request.' AND entry < 'execution.request/') e
     WHERE parts[1] IN ('execution.request.open', 'execution.request.urgent', 'execution.request.twice', 'execution.request.settled',
       'execution.request.outcomes', 'execution.request.trends');
   DELETE FROM entries e USING was w WHERE e.entry = w.entry;
   CREATE TEMPORARY TABLE opened ON COMMIT DROP AS
     SELECT ARRAY['execution.request.open'] || parts[2:array_length(parts, 1)] AS parts FROM was WHERE name = 'urgent'
     UNION ALL SELECT parts[1:3] || ARRAY[''] || parts[4:array_length(parts, 1)] FROM was WHERE name = 'open' AND parts[3] = '9';
   INSERT INTO entries SELECT array_to_string(parts, E'\\x01\\x01') FROM opened;
   INSERT INTO entries SELECT array_to_string(ARRAY['execution.request.bound'] || parts[2:array_length(parts, 1)], E'\\x01\\x01')
     FROM was WHERE name = 'settled' AND parts[3] = 'bound';
   DELETE FROM counts WHERE split_part(prefix, E'\\x01\\x01', 1) IN ('execution.request.open', 'execution.request.urgent')
     OR (split_part(prefix, E'\\x01\\x01', 1) = 'execution.request.twice' AND split_part(prefix, E'\\x01\\x01', 3) = '9');
   INSERT INTO counts SELECT array_to_string(parts[1:4], E'\\x01\\x01') || E'\\x01\\x01', count(*) FROM opened GROUP BY 1;
   ALTER TABLE sealed_groups RENAME TO counted_groups`,
  // Runs are found by the agent that delegated them. Servers of the release before would write runs without that entry, so they are shut out.
  `INSERT INTO entries
     SELECT array_to_string(ARRAY['delegation.run.delegated', run->>'delegated_by', run->>'agent_id', run->>'id'], E'\\x01\\x01')
     FROM (SELECT coalesce(d.text, i.text)::json AS run FROM docs d LEFT JOIN images i ON i.id = d.image
       WHERE d.key > 'delegation.run/' AND d.key < 'delegation.run0') r
     WHERE run->>'delegated_by' IS NOT NULL ON CONFLICT DO NOTHING;
   ALTER TABLE counted_groups RENAME TO delegated_groups`,
]

/** The advisory lock of the server that migrates. The others wait for it; a step can take long. */
export const MIGRATING = 4_820_174_231

const SESSION = 'countersign migrations'
/** How often a session polls for the lock, and how long it waits for a holder that is no Countersign server. */
const POLL_MS = 250
const FOREIGN_MS_MAX = 10_000

/** Brings a database to this release's tables. Refuses a database of a newer release. */
export async function migrate(
  url: string,
  all: readonly string[] = steps,
  signal?: AbortSignal,
  foreignMs = FOREIGN_MS_MAX,
  progress: (text: string) => void = () => undefined,
): Promise<void> {
  const client = await connectAlone(url, SESSION, signal)
  try {
    // Without missing steps, take no lock: any role that can connect could hold it.
    if ((await notedIn(client)) === all.length) return
    // The database ends a session that stalls between two steps. PostgreSQL 13 has no such setting for a session.
    await client.query(`SET idle_session_timeout = '30s'`).catch(() => undefined)
    // Concurrent CREATEs of one object fail in PostgreSQL, even with IF NOT EXISTS.
    await lock(client, foreignMs, progress)
    const noted = await notedIn(client)
    if (noted > all.length) throw newer(noted, all.length)
    if (noted === 0) {
      await client.query(`CREATE SCHEMA IF NOT EXISTS ${SCHEMA}`)
      await client.query(`CREATE TABLE IF NOT EXISTS ${SCHEMA}.migrations (n bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`)
    }
    await client.query(`SET search_path = ${SCHEMA}`)
    if (noted < all.length)
      progress(noted === 0 ? 'creating the tables of the database' : `migrating the database from schema ${noted} to ${all.length}`)
    await runSteps(client, all, noted)
  } finally {
    await client.end()
  }
}

/**
 * Runs all missing steps in one transaction that locks writers out. A server of the previous release that wrote between two steps would
 * undo what the first of them rewrote. The tables are locked first: a session that waits for a row holds its table, and would deadlock.
 */
async function runSteps(client: pg.Client, all: readonly string[], noted: number): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT name FROM unnest(ARRAY['head', 'groups', 'sealed_groups', 'counted_groups', 'delegated_groups']) AS name WHERE to_regclass(name) IS NOT NULL`,
  )
  const lock = rows.length === 0 ? '' : `LOCK TABLE ${rows.map(({ name }) => name).join(', ')} IN ACCESS EXCLUSIVE MODE;`
  const missing = all.slice(noted).map((step, i) => `${step}; INSERT INTO migrations (n) VALUES (${noted + i + 1});`)
  for (let attempt = 1; ; attempt++)
    try {
      await client.query(`BEGIN; ${lock} ${missing.join('\n')} COMMIT`)
      return
    } catch (error) {
      await client.query('ROLLBACK')
      // Readers take the same tables in another order.
      if ((error as { code?: string }).code !== DEADLOCK || attempt === ATTEMPTS_MAX) throw error
    }
}
const DEADLOCK = '40P01'
const ATTEMPTS_MAX = 5

/** The check for a read-only server. */
export async function refuseUnmigrated(url: string, signal?: AbortSignal): Promise<void> {
  const client = await connectAlone(url, SESSION, signal)
  try {
    const noted = await notedIn(client)
    if (noted > steps.length) throw newer(noted, steps.length)
    if (noted < steps.length)
      throw new Error(
        `the database has schema ${noted} of an earlier release, and this one needs ${steps.length}: start a server once without --read-only`,
      )
  } finally {
    await client.end()
  }
}

/** Waits for a server that migrates for as long as it takes, and for any other session that holds the lock only for a while. */
async function lock(client: pg.Client, foreignMs: number, progress: (text: string) => void): Promise<void> {
  const began = performance.now()
  for (let attempt = 1; ; attempt++) {
    const { rows } = await client.query<{ is: boolean }>('SELECT pg_try_advisory_lock($1) AS is', [MIGRATING])
    if (rows[0]!.is) return
    if (attempt === 1) progress('waiting for another server that migrates the database')
    const holder = await holderOf(client)
    if (holder !== null && holder.application !== SESSION && performance.now() - began > foreignMs)
      throw new Error(
        `the database cannot be migrated: session ${holder.pid} of role ${holder.role} holds advisory lock ${MIGRATING}. End that session (SELECT pg_terminate_backend(${holder.pid})), then start again`,
      )
    await new Promise((done) => setTimeout(done, POLL_MS))
  }
}

async function holderOf(client: pg.Client): Promise<{ pid: number; role: string; application: string | null } | null> {
  const text = `SELECT l.pid, coalesce(a.usename, 'unknown') AS role, a.application_name AS application
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (l.classid::bigint << 32 | l.objid::bigint) = $1`
  return (await client.query<{ pid: number; role: string; application: string | null }>(text, [MIGRATING])).rows[0] ?? null
}

/** The number of steps applied to a database; 0 if it has no tables of Countersign. */
export async function notedIn(client: Pick<pg.Client, 'query'>): Promise<number> {
  const { rows: found } = await client.query<{ there: boolean }>(`SELECT to_regclass('${SCHEMA}.migrations') IS NOT NULL AS there`)
  if (!found[0]!.there) return 0
  const { rows } = await client.query<{ n: string | null }>(`SELECT max(n) AS n FROM ${SCHEMA}.migrations`)
  return Number(rows[0]!.n ?? 0)
}

export const newer = (found: number, known: number): Error =>
  new Error(
    `the database was brought to schema ${found} by a newer Countersign, and this one knows ${known}: start the newer release, or restore a backup from before`,
  )
