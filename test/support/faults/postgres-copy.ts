// A copy of a PostgreSQL server that runs, made as docs/servers.md says: the files between the beginning and the end of a backup, with its label.
import { execFileSync } from 'node:child_process'
import { cpSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { startPostgres, type PostgresServer } from '../as-processes/postgres.ts'

type Settings = Readonly<Record<string, string>>

/** `standby`: it follows the other one; otherwise it is a server of its own. `meanwhile`: done between the beginning and the end. */
export async function copyOf(
  of: PostgresServer,
  settings: Settings,
  { standby = false, meanwhile }: { readonly standby?: boolean; readonly meanwhile?: () => Promise<void> } = {},
): Promise<PostgresServer> {
  const client = new pg.Client({ connectionString: of.url })
  await client.connect()
  await client.query(`SELECT pg_backup_start('countersign', fast => TRUE)`)
  return startPostgres({
    settings: { ...settings, ...(standby ? { primary_conninfo: `host=127.0.0.1 port=${of.port} user=postgres` } : {}) },
    async fill(data) {
      await meanwhile?.()
      cpSync(of.data, data, { recursive: true, filter: (path) => !/postmaster\.(pid|opts)$/.test(path) })
      const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop()')
      await client.end()
      // All of it up to the end of the backup; a standby would ask the other one for it.
      if (!standby) cpSync(join(of.data, 'pg_wal'), join(data, 'pg_wal'), { recursive: true })
      writeFileSync(join(data, 'backup_label'), rows[0]!.labelfile)
      if (standby) writeFileSync(join(data, 'standby.signal'), '')
      rmSync(join(data, 'postgresql.auto.conf'), { force: true })
      // As who it runs: the owner of its folder.
      const { uid, gid } = statSync(dirname(data))
      if (process.getuid?.() === 0) execFileSync('chown', ['-R', `${uid}:${gid}`, data])
    },
  })
}
