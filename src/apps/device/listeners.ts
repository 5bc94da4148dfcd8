// Unix sockets of the daemon, one for each policy: joining the group of a socket is the act of authentication. Those with certificates are in
// tls-listeners.ts, which is loaded only if they are wanted.
import { chownSync, lstatSync, readFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import type { HacpServer } from '#bridges/hacp/index.ts'
import { limits } from '#kernel/limits.ts'
import { listenOn } from '../server/socket-file.ts'
import { StartError } from '../server/start-error.ts'
import type { Address } from './settings.ts'

export type Listening = { readonly address: string; stop(): Promise<unknown> }

export const STALL_MS = limits.requestMsMax

export function tame(socket: Socket): void {
  socket.on('error', () => undefined)
  // Node also counts the progress of writes: this fires only without any progress.
  socket.setTimeout(STALL_MS, () => {
    if (socket.writableLength > 0) socket.destroy()
  })
}

export async function listenUnix(hacp: HacpServer, path: string, policy: string, group: string | null): Promise<Listening> {
  const server = createServer((socket) => {
    tame(socket)
    hacp.accept({ input: socket, output: socket, destroy: () => socket.destroy() }, policy, null)
  })
  const remove = await listenOn(path, (young) => startListening(server, { path: young }))
  if (group !== null) giveTo(path, group)
  return {
    address: path,
    async stop() {
      server.close()
      await remove()
    },
  }
}

/** Joining the group is the act of authentication (HACP hardware draft, 10). */
function giveTo(path: string, group: string): void {
  try {
    const line = readFileSync('/etc/group', 'utf8')
      .split('\n')
      .find((line) => line.startsWith(`${group}:`))
    const { uid, gid } = lstatSync(path)
    const wanted = Number(line!.split(':')[2])
    if (gid !== wanted) chownSync(path, uid, wanted)
  } catch {
    throw new StartError(`the socket ${path} cannot be given to the group ${group}: create the group, and run the daemon as a member of it`)
  }
}

export function startListening(server: Server, where: { path: string } | Address): Promise<void> {
  return new Promise((done, failed) => {
    server.once('error', failed)
    server.listen(where, () => {
      server.off('error', failed)
      done()
    })
  })
}
