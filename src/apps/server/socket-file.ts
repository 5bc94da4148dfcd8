// The file of a Unix socket. It appears only when it is ready, and only its group may use it. The file of a dead server is replaced; the
// file of a live one is not.
import { chmod, lstat, rename, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { StartError } from './start-error.ts'

export async function listenOn(path: string, listen: (path: string) => Promise<void>): Promise<() => Promise<void>> {
  await refuseTaken(path)
  // Under another name until its mode is right: between listening and chmod anybody could connect.
  const young = `${path}.new`
  try {
    await rm(young, { force: true })
    await listen(young)
    await chmod(young, 0o660)
    await rename(young, path)
  } catch (error) {
    throw new StartError(`cannot listen on the socket ${path}: ${(error as Error).message} (see --socket)`)
  }
  const mine = await lstat(path)
  return async () => {
    const now = await lstat(path).catch(() => null)
    // Another server can have taken the name since.
    if (now?.ino === mine.ino) await rm(path, { force: true })
  }
}

async function refuseTaken(path: string): Promise<void> {
  const found = await lstat(path).catch(() => null)
  if (found === null) return
  if (!found.isSocket()) throw new StartError(`${path} exists and is not a socket: move it away, or choose another path with --socket`)
  if (await answers(path)) throw new StartError(`another server answers on ${path}: stop it first, or choose another path with --socket`)
}

function answers(path: string): Promise<boolean> {
  return new Promise((done, failed) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      done(true)
    })
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') done(false)
      else failed(new StartError(`the socket ${path} cannot be tried: ${error.message} (see --socket)`))
    })
  })
}

/** Listens on a port; a refused one is explained to the operator. */
export async function explainRefusedPort<T>(
  work: () => Promise<T>,
  { port, host }: { readonly port: number; readonly host: string },
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE')
      throw new StartError(
        `port ${port} on ${host} is taken: stop the program that uses it, or choose another with --port (0 takes a free one)`,
      )
    if (code === 'EACCES') throw new StartError(`this user may not listen on port ${port}: choose one above 1023 with --port`)
    throw new StartError(`cannot listen on ${host}, port ${port}: ${message} (see --host and --port)`)
  }
}
