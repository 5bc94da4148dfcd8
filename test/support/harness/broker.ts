// A broker for tests: the one that COUNTERSIGN_AMQP_URL names, or a private one. The guard gets its port, because another program opens it.
import { appendFileSync } from 'node:fs'
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { Connection } from 'rabbitmq-client'
import { startBroker, type Broker } from '../../../scripts/broker.ts'

/** A broker takes ten seconds to start, and minutes on a machine that is busy with other things. */
export const SLOW_START = { timeout: 320_000 }

export type TestBroker = Pick<Broker, 'urlOf' | 'port' | 'ctl' | 'ctlProgram'> & {
  /** Killed, and started again on the same data. */
  restart(): Promise<void>
  stop(): Promise<void>
  /** Drains a queue, and returns the reasons in the headers. */
  drain(user: string, queue: string): Promise<string[]>
}

/** Below those that the system gives to connections. */
const [PORT_MIN, PORTS] = [10_000, 18_000]
/** With it a broker takes the next one (amqps), one for other nodes and one for its port mapper. */
const OFFSETS = [0, 1, 1_000, 2_000]

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  const heard = await once(server, 'listening').then(
    () => true,
    () => false,
  )
  if (heard) await new Promise((done) => server.close(done))
  return heard
}

/** Free now, with the ports above it that the broker needs. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = PORT_MIN + randomInt(PORTS)
    const all = await Promise.all(OFFSETS.map((offset) => isFree(port + offset)))
    if (!all.every(Boolean)) continue
    tellGuard(port)
    return port
  }
}

function tellGuard(port: number): void {
  const folder = process.env['COUNTERSIGN_TEST_GUARD']
  if (folder !== undefined) appendFileSync(`${folder}/ports`, `${port}\n`)
}

/** Settings that a harness at it needs, beside its address. */
type LinkSettings = { readonly user_id?: 'off' }
export type UsedBroker = Pick<TestBroker, 'urlOf' | 'stop'> & { readonly link: LinkSettings }

/**
 * The broker that COUNTERSIGN_AMQP_URL names, or a private one. Of a given one only the virtual host of the address is used: its one user
 * speaks for all, so that senders cannot be told apart, and the queues are removed before and after.
 */
export async function usedBroker(folder: string, users: readonly string[]): Promise<UsedBroker> {
  const given = process.env['COUNTERSIGN_AMQP_URL'] ?? ''
  if (given === '') return { ...(await brokerFor(folder, users)), link: {} }
  const connection = new Connection({ url: given })
  connection.on('error', () => undefined)
  const removed = async (): Promise<void> => {
    for (const user of users)
      for (const queue of [`hcp.cmd.${user}`, `hcp.evt.${user}`, `hcp.dead.${user}`]) await connection.queueDelete({ queue })
  }
  await removed()
  return {
    urlOf: () => given,
    link: { user_id: 'off' },
    async stop() {
      await removed()
      await connection.close()
    },
  }
}

/** `tls`: a folder with ca.pem, server.pem and server.key, for amqps at the next port. */
export async function brokerFor(folder: string, users: readonly string[], tls?: string): Promise<TestBroker> {
  const port = await freePort()
  if (tls !== undefined) tellGuard(port + 1)
  const broker = await startBroker({ folder, port, users, ...(tls === undefined ? {} : { tls }) })
  return {
    port,
    urlOf: broker.urlOf,
    ctl: broker.ctl,
    ctlProgram: broker.ctlProgram,
    stop: broker.stop,
    async restart() {
      await broker.kill()
      await broker.start()
    },
    async drain(user, queue) {
      const connection = new Connection({ url: broker.urlOf(user) })
      connection.on('error', () => undefined)
      const found: string[] = []
      for (;;) {
        const message = await connection.basicGet({ queue, noAck: true })
        if (message === undefined) break
        found.push(String(message.headers?.['reason']))
      }
      await connection.close()
      return found
    },
  }
}
