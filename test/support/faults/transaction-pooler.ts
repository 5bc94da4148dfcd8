// A pooler in front of a PostgreSQL that gives each transaction another session, as PgBouncer does with `pool_mode = transaction`: sessions are few,
// belong to no client, and are given out for as long as a transaction lasts.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { TestContext } from 'node:test'

/** `last`: of the sessions that are free, the one that was given back last is given out first; `first`: the other way round. */
export async function startPooler(t: TestContext, url: string, order: 'first' | 'last', size = 4): Promise<string> {
  const { hostname, port, username, pathname } = new URL(url)
  const sockets = new Set<Socket>()
  const free: Socket[] = []
  const waiting: ((session: Socket) => void)[] = []
  const giveBack = (session: Socket): void => {
    const next = waiting.shift()
    if (next) next(session)
    else free.push(session)
  }
  const take = (): Promise<Socket> => {
    const session = order === 'last' ? free.pop() : free.shift()
    return session ? Promise.resolve(session) : new Promise((done) => waiting.push(done))
  }
  for (let i = 0; i < size; i++) {
    const session = connect(Number(port), hostname)
    sockets.add(session)
    session.on('error', () => session.destroy())
    session.write(startup({ user: username, database: pathname.slice(1) }))
    await until(session, (text) => text.endsWith(READY))
    free.push(session)
  }

  const server = createServer((client) => {
    sockets.add(client)
    client.on('error', () => client.destroy())
    let mine: Promise<Socket> | null = null
    let isOpen = false
    const relay = (session: Socket) => (bytes: Buffer) => {
      client.write(bytes)
      // Between two transactions, and nothing else is on its way for this client.
      if (!bytes.toString('latin1').endsWith(READY)) return
      session.removeAllListeners('data')
      mine = null
      giveBack(session)
    }
    client.on('data', (bytes: Buffer) => {
      if (!isOpen) {
        isOpen = true
        // AuthenticationOk, the number of a session, ReadyForQuery.
        client.write(Buffer.from(`R\0\0\0\u{8}\0\0\0\0K\0\0\0\u{c}\0\0\0\u{1}\0\0\0\u{1}${READY}`, 'latin1'))
        return
      }
      if (bytes[0] === 'X'.charCodeAt(0)) return void client.end()
      mine ??= take().then((session) => session.on('data', relay(session)))
      void mine.then((session) => session.write(bytes))
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const own = new URL(url)
  own.hostname = '127.0.0.1'
  own.port = String((server.address() as AddressInfo).port)
  return own.href
}

/** ReadyForQuery, outside of a transaction. */
const READY = 'Z\0\0\0\u{5}I'

function startup(settings: Readonly<Record<string, string>>): Buffer {
  const message = Buffer.from(
    `${Object.entries(settings)
      .map(([name, value]) => `${name}\0${value}\0`)
      .join('')}\0`,
  )
  const head = Buffer.alloc(8)
  head.writeUInt32BE(message.length + 8, 0)
  head.writeUInt32BE(196_608, 4)
  return Buffer.concat([head, message])
}

function until(session: Socket, isThere: (text: string) => boolean): Promise<void> {
  let heard = ''
  return new Promise((done, failed) => {
    const listen = (bytes: Buffer): void => {
      heard += bytes.toString('latin1')
      if (!isThere(heard)) return
      session.off('data', listen)
      done()
    }
    session.on('data', listen)
    session.once('close', () => failed(new Error(`the database let no session in: ${heard}`)))
  })
}
