// A proxy in front of a broker that cuts a connection at a chosen step of AMQP 0-9-1, before that frame has passed.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** By class and method, and by who says it. */
export const steps = {
  'connection.open': ['client', 10, 40],
  'queue.declare': ['client', 50, 10],
  'basic.consume': ['client', 60, 20],
  'basic.publish': ['client', 60, 40],
  'its confirm': ['broker', 60, 80],
  'basic.deliver': ['broker', 60, 60],
  'its acknowledgement': ['client', 60, 80],
} as const
export type Step = keyof typeof steps

export type AmqpProxy = {
  readonly port: number
  /** The next such frame ends its connection, instead of passing. Resolves when it has. */
  cutAt(step: Step): Promise<void>
  /** Ends all connections. */
  cut(): void
  close(): Promise<void>
}

const FRAME_HEAD = 7
const METHOD = 1

export async function startAmqpProxy(port: number): Promise<AmqpProxy> {
  let armed: { step: Step; done: () => void } | null = null
  const pairs = new Set<() => void>()

  /** Passes whole frames on; false: this one is where the cut is. */
  function passer(from: 'client' | 'broker', to: Socket, end: () => void): (bytes: Buffer) => void {
    let rest = Buffer.alloc(0)
    // The protocol header of the client is no frame.
    let head = from === 'client' ? 8 : 0
    return (bytes) => {
      rest = Buffer.concat([rest, bytes])
      if (head > 0) {
        if (rest.length < head) return
        to.write(rest.subarray(0, head))
        rest = rest.subarray(head)
        head = 0
      }
      while (rest.length >= FRAME_HEAD) {
        const size = FRAME_HEAD + rest.readUInt32BE(3) + 1
        if (rest.length < size) return
        const frame = rest.subarray(0, size)
        rest = rest.subarray(size)
        if (armed !== null && frame[0] === METHOD) {
          const [who, klass, method] = steps[armed.step]
          if (who === from && frame.readUInt16BE(7) === klass && frame.readUInt16BE(9) === method) {
            const { done } = armed
            armed = null
            end()
            return done()
          }
        }
        to.write(frame)
      }
    }
  }

  const server = createServer((client) => {
    const broker = connect(port, '127.0.0.1')
    const end = (): void => {
      client.destroy()
      broker.destroy()
      pairs.delete(end)
    }
    pairs.add(end)
    client.on('data', passer('client', broker, end))
    broker.on('data', passer('broker', client, end))
    for (const socket of [client, broker]) {
      socket.on('error', end)
      socket.on('close', end)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    cutAt: (step) => new Promise((done) => (armed = { step, done })),
    cut: () => pairs.forEach((end) => end()),
    async close() {
      for (const end of pairs) end()
      await new Promise((done) => server.close(done))
    },
  }
}
