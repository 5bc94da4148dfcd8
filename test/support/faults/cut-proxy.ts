// A proxy in front of a PostgreSQL that cuts a connection at a chosen point of a group, by closing it or by falling silent.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { TestContext } from 'node:test'

/** `lock`: before the first round trip arrives. `commit`: before COMMIT arrives. `answer`: after it, before its answer. */
export type CutPoint = 'lock' | 'commit' | 'answer'
export type CutManner = 'closed' | 'silent'

export type CutProxy = {
  readonly url: string
  /** The next group is cut there. */
  arm(point: CutPoint, manner: CutManner): void
  /** Whether what was armed has happened. */
  isArmed(): boolean
  /** Blocks both directions until the proxy is opened again. */
  sever(manner: CutManner): void
  open(): void
}

export async function startCutProxy(t: TestContext, url: string): Promise<CutProxy> {
  const target = new URL(url)
  let armed: { point: CutPoint; manner: CutManner } | null = null
  let severed: CutManner | null = null
  const pairs = new Set<readonly [Socket, Socket]>()

  const server = createServer((client) => {
    if (severed === 'closed') return void client.destroy()
    const database = connect(Number(target.port), target.hostname)
    const pair = [client, database] as const
    pairs.add(pair)
    let isSilent = false
    const end = (): void => {
      client.destroy()
      database.destroy()
      pairs.delete(pair)
    }
    const cut = (manner: CutManner): void => {
      armed = null
      isSilent = true
      if (manner === 'closed') end()
    }
    client.on('data', (bytes) => {
      if (isSilent || severed) return
      const text = bytes.toString('latin1')
      const isCommit = text.includes('commit\0')
      if (armed?.point === 'lock' && text.includes('begin\0')) return cut(armed.manner)
      if (armed?.point === 'commit' && isCommit) return cut(armed.manner)
      database.write(bytes)
      if (armed?.point !== 'answer' || !isCommit) return
      const { manner } = armed
      armed = null
      isSilent = true
      // Long enough for the database to have it.
      setTimeout(() => manner === 'closed' && end(), 150)
    })
    database.on('data', (bytes) => {
      if (!isSilent && !severed) client.write(bytes)
    })
    for (const socket of pair) {
      socket.on('error', end)
      socket.on('close', () => (isSilent && !client.destroyed ? undefined : end()))
    }
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    for (const sockets of pairs) for (const socket of sockets) socket.destroy()
    server.close()
  })
  const own = new URL(url)
  own.hostname = '127.0.0.1'
  own.port = String((server.address() as AddressInfo).port)
  return {
    url: own.href,
    arm: (point, manner) => void (armed = { point, manner }),
    isArmed: () => armed !== null,
    sever(manner) {
      severed = manner
      if (manner === 'closed') for (const sockets of pairs) for (const socket of sockets) socket.destroy()
    },
    open() {
      for (const sockets of pairs) for (const socket of sockets) socket.destroy()
      severed = null
    },
  }
}
