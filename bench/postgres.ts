// A plain server on PostgreSQL as an upper bound: one INSERT for each call, with no credential, no rights, no record and no grouping. Its
// argument is the address of the database.
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import pg from 'pg'

/** As many as there are callers, so that none waits for a connection. */
const CONNECTIONS = 64

const pool = new pg.Pool({ connectionString: process.argv[2]!, max: CONNECTIONS })
await pool.query('CREATE TABLE task (id text PRIMARY KEY, doc jsonb NOT NULL)')

let tasks = 0
const app = fastify({ logger: false })
app.post('/task', async (request) => {
  const id = `task_${Date.now().toString(36)}${String(++tasks).padStart(8, '0')}`
  const task = { id, status: 'created', created_at: new Date().toISOString(), ...(request.body as object) }
  await pool.query({ name: 'insert', text: 'INSERT INTO task VALUES ($1, $2)', values: [id, JSON.stringify(task)] })
  return { task }
})
await app.listen({ port: 0, host: '127.0.0.1' })
console.log(`postgres ready http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
