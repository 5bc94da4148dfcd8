// The path guard: a path is walked component by component with descriptors that follow no link, so that nothing that others do to the
// folders meanwhile leads outside. Only plain files with one name, on the file system of the listed folder.
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  writeSync,
  type Dirent,
  type Stats,
} from 'node:fs'
import { limits } from '#kernel/limits.ts'
import { isUnder } from '#protocols/hardware/daemon/policy.ts'
import { DeviceError } from './port.ts'

/** Missing in Node's constants: a descriptor that only identifies a path. */
const O_PATH = 0o10000000
const { O_NOFOLLOW, O_DIRECTORY, O_RDONLY, O_WRONLY, O_CREAT, O_EXCL } = constants
const FOLDER = O_PATH | O_NOFOLLOW | O_DIRECTORY
const PLACE = O_PATH | O_NOFOLLOW

const deniedError = (message: string): DeviceError => new DeviceError('denied', message)
/** Not `/proc/self`: one link less to follow, a fifth of the time of an open. */
const OWN = `/proc/${process.pid}/fd`
const within = (folder: number, name: string): string => `${OWN}/${folder}/${name}`

export type PathGuard = {
  read(path: string, offset: number, length: number): { data: Buffer; size: number; eof: boolean }
  /** Returns the former bytes, or null. */
  write(path: string, data: Uint8Array): Buffer | null
  remove(path: string): void
  list(path: string): { name: string; type: string; size: number }[]
  stat(path: string): { type: string; size: number; mtime: string }
  close(): void
}

export type Allowed = { readonly read: readonly string[]; readonly write: readonly string[]; readonly file_bytes_max: number }

export function createPathGuard({ read, write, file_bytes_max }: Allowed): PathGuard {
  const readable = [...read, ...write]
  // The operator can list a folder by a link. It is resolved a single time, so redirecting the link later gains nothing.
  const roots = new Map(readable.map((folder) => [folder, createRoot(realOf(folder))]))

  /** The listed folder that contains the path, and the components below. */
  function split(path: string, folders: readonly string[]): { root: Root; below: string[] } {
    if (!isUnder(path, folders)) throw deniedError('the path is not on the list')
    let folder = ''
    for (const candidate of folders)
      if (candidate.length > folder.length && (candidate === '/' || path === candidate || path.startsWith(`${candidate}/`)))
        folder = candidate
    return { root: roots.get(folder)!, below: components(path.slice(folder === '/' ? 0 : folder.length)) }
  }

  /** Calls back with a descriptor of the folder that holds the last component, and that component's name; '' is the listed folder itself. */
  function inFolder<T>(path: string, folders: readonly string[], act: (folder: number, name: string, device: number) => T): T {
    const { root, below } = split(path, folders)
    const name = below.pop() ?? ''
    const { fd, device } = root.open()
    let folder = fd
    try {
      for (const component of below) {
        const next = openComponent(folder, component, FOLDER)
        if (folder !== fd) closeSync(folder)
        folder = next
        if (fstatSync(folder).dev !== device) throw deniedError('the path leads to another file system')
      }
      return act(folder, name, device)
    } finally {
      if (folder !== fd) closeSync(folder)
    }
  }

  function withPlace<T>(path: string, folders: readonly string[], act: (place: number, stats: Stats) => T): T {
    return inFolder(path, folders, (folder, name, device) => {
      const place = name === '' ? openSync(`${OWN}/${folder}`, O_PATH | O_DIRECTORY) : openComponent(folder, name, PLACE)
      try {
        const stats = fstatSync(place)
        refuseStrange(stats, device)
        return act(place, stats)
      } finally {
        closeSync(place)
      }
    })
  }

  return {
    read: (path, offset, length) =>
      withPlace(path, readable, (place, stats) => {
        if (!stats.isFile()) throw deniedError('it is not a plain file')
        const { size } = stats
        // Opens the file that was checked, by its descriptor: its name might lead to another file by now.
        const file = openSync(`${OWN}/${place}`, O_RDONLY)
        try {
          const data = Buffer.allocUnsafe(Math.max(0, Math.min(length, file_bytes_max, size - offset)))
          let got = 0
          for (let n = -1; got < data.length && n !== 0; got += n) n = readSync(file, data, got, data.length - got, offset + got)
          return { data: data.subarray(0, got), size, eof: offset + got >= size }
        } finally {
          closeSync(file)
        }
      }),
    write(path, data) {
      if (data.length > file_bytes_max) throw deniedError(`a file has at most ${file_bytes_max} bytes`)
      return inFolder(path, write, (folder, name, device) => {
        if (name === '') throw deniedError('it is a folder')
        const before = present(folder, name, device, file_bytes_max)
        replace(folder, name, data)
        return before
      })
    },
    remove: (path) => inFolder(path, write, (folder, name) => rmSync(within(folder, name))),
    list: (path) =>
      withPlace(path, readable, (place, stats) => {
        if (!stats.isDirectory()) throw deniedError('it is not a folder')
        const entries = readdirSync(`${OWN}/${place}/`, { withFileTypes: true }).slice(0, limits.entriesPerFolderMax)
        return entries.map((entry) => ({ name: entry.name, type: typeOf(entry), size: sizeOf(place, entry.name) }))
      }),
    stat: (path) => withPlace(path, readable, (_, stats) => ({ type: typeOf(stats), size: stats.size, mtime: stats.mtime.toISOString() })),
    close() {
      for (const root of roots.values()) root.close()
    },
  }
}

/** The resolved path; a folder that does not exist yet is walked as written, without following links. */
function realOf(folder: string): string {
  try {
    return realpathSync.native(folder)
  } catch {
    return folder
  }
}

/** How soon a replaced listed folder is detected. */
const LOOK_MS = 100
type Root = { open(): { readonly fd: number; readonly device: number }; close(): void }

/**
 * A listed folder, walked to once and kept open: each call begins there (a third of the time of a walk from `/`). Where another folder has its
 * place by now, that one is walked to, again over no link.
 */
function createRoot(real: string): Root {
  let known: { readonly fd: number; readonly device: number; readonly ino: number } | null = null
  let lookedAt = -Infinity
  function close(): void {
    if (known) closeSync(known.fd)
    known = null
  }
  return {
    open() {
      if (real === '/proc' || real.startsWith('/proc/')) throw deniedError('/proc is never served')
      const at = performance.now()
      if (known && at - lookedAt < LOOK_MS) return known
      lookedAt = at
      const now = lstatSync(real, { throwIfNoEntry: false })
      if (known && now?.ino === known.ino && now.dev === known.device) return known
      close()
      let fd = openSync('/', FOLDER)
      for (const component of components(real)) {
        const above = fd
        try {
          fd = openComponent(above, component, FOLDER)
        } finally {
          closeSync(above)
        }
      }
      const { dev: device, ino } = fstatSync(fd)
      return (known = { fd, device, ino })
    },
    close,
  }
}

const components = (path: string): string[] => path.split('/').filter((part) => part !== '' && part !== '.')

function openComponent(folder: number, name: string, how: number): number {
  try {
    return openSync(within(folder, name), how)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new DeviceError('absent', 'there is no such file or folder')
    // A link with O_NOFOLLOW and O_DIRECTORY is "not a directory".
    if (code === 'ELOOP' || code === 'ENOTDIR') throw deniedError('the path contains a symbolic link, or a part that is not a folder')
    throw deniedError(`the path cannot be entered (${code})`)
  }
}

function refuseStrange(stats: Stats, device: number): void {
  if (stats.isSymbolicLink()) throw deniedError('the path leads over a link')
  if (!stats.isFile() && !stats.isDirectory()) throw deniedError('it is neither a plain file nor a folder')
  if (stats.isFile() && stats.nlink > 1) throw deniedError('the file has more than one hard link')
  if (stats.dev !== device) throw deniedError('the path leads to another file system')
}

/** The bytes of a file that is about to be replaced; null: there is none. */
function present(folder: number, name: string, device: number, bytesMax: number): Buffer | null {
  let place: number
  try {
    place = openComponent(folder, name, PLACE)
  } catch (error) {
    if (error instanceof DeviceError && error.code === 'absent') return null
    throw error
  }
  try {
    const stats = fstatSync(place)
    refuseStrange(stats, device)
    if (!stats.isFile()) throw deniedError('it is a folder')
    const file = openSync(`${OWN}/${place}`, O_RDONLY)
    try {
      const data = Buffer.alloc(Math.min(stats.size, bytesMax))
      return data.subarray(0, readSync(file, data, 0, data.length, 0))
    } finally {
      closeSync(file)
    }
  } finally {
    closeSync(place)
  }
}

let writes = 0
/** Writes a new file beside it, flushes it, and renames it over the old one. */
function replace(folder: number, name: string, data: Uint8Array): void {
  const young = within(folder, `.countersign-${process.pid}-${++writes}`)
  const file = openSync(young, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o640)
  try {
    for (let done = 0; done < data.length;) done += writeSync(file, data, done)
    // Readable for the clients' group, regardless of the umask of the service.
    fchmodSync(file, 0o640)
    fsyncSync(file)
    renameSync(young, within(folder, name))
  } catch (error) {
    rmSync(young, { force: true })
    throw error
  } finally {
    closeSync(file)
  }
}

const typeOf = (entry: Pick<Dirent, 'isFile' | 'isDirectory' | 'isSymbolicLink'>): string =>
  entry.isFile() ? 'file' : entry.isDirectory() ? 'directory' : entry.isSymbolicLink() ? 'link' : 'other'

/** The size of a link itself, never of its target. */
function sizeOf(folder: number, name: string): number {
  try {
    const place = openSync(within(folder, name), PLACE)
    try {
      return fstatSync(place).size
    } finally {
      closeSync(place)
    }
  } catch {
    return 0
  }
}
