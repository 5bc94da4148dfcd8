// The file of a Unix socket. It appears only when it is ready and only its group may use it; what a dead server left is replaced,
// what a live one uses is not.
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
    // Another server may have taken the name since.
    if (now?.ino === mine.ino) await rm(path, { force: true })
  }
}

async function refuseTaken(path: string): Promise<void> {
  const found = await lstat(path).catch(() => null)
  if (found === null) return
  if (!found.isSocket()) throw new StartError(`${path} exists and is no socket: move it away, or choose another path with --socket`)
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
