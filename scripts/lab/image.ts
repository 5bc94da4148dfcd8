// An initramfs: files and folders as a cpio archive ("newc"), which the kernel unpacks into memory.
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const [FOLDER, FILE] = [0o040755, 0o100755]

export type Image = {
  folder(path: string): void
  file(path: string, bytes: Uint8Array | string): void
  /** A folder of this machine with everything in it. */
  tree(path: string, from: string): void
  bytes(): Buffer
}

export function createImage(): Image {
  const parts: Buffer[] = []
  const folders = new Set<string>()
  let inode = 1
  const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)])
  function entry(name: string, mode: number, bytes: Buffer): void {
    const numbers = [inode++, mode, 0, 0, 1, 0, bytes.length, 0, 0, 0, 0, name.length + 1, 0]
    const head = `070701${numbers.map((number) => number.toString(16).padStart(8, '0')).join('')}${name}\0`
    parts.push(padded(Buffer.from(head)), padded(bytes))
  }
  function folder(path: string): void {
    const above = path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : ''
    if (above !== '') folder(above)
    if (folders.has(path)) return
    folders.add(path)
    entry(path, FOLDER, Buffer.alloc(0))
  }
  const image: Image = {
    folder,
    file(path, bytes) {
      if (path.includes('/')) folder(path.slice(0, path.lastIndexOf('/')))
      entry(path, FILE, typeof bytes === 'string' ? Buffer.from(bytes) : Buffer.from(bytes))
    },
    tree(path, from) {
      if (lstatSync(from).isFile()) return image.file(path, readFileSync(from))
      for (const name of readdirSync(from)) image.tree(`${path}/${name}`, join(from, name))
    },
    bytes() {
      entry('TRAILER!!!', 0, Buffer.alloc(0))
      return Buffer.concat(parts)
    },
  }
  return image
}
