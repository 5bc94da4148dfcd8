// The link of a device as its data folder names it: read again when it changes, so that a running daemon takes up a new one.
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { httpTransport } from '#sdk/transport/http.ts'
import type { Uplink } from '#devices/uplink/link.ts'

export const LINK_FILE = 'link.json'

/** The uplink of the link file, or null. Returns the same object until the file changes. */
export function uplinkIn(data: string): () => Uplink | null {
  const path = join(data, LINK_FILE)
  let seen: string | null = null
  let uplink: Uplink | null = null
  return () => {
    const found = statSync(path, { throwIfNoEntry: false })
    const mark = found ? `${found.mtimeMs} ${found.ino} ${found.size}` : null
    if (mark === seen) return uplink
    seen = mark
    uplink = null
    try {
      if (mark !== null) {
        const { url, key } = JSON.parse(readFileSync(path, 'utf8')) as { url: string; key: string }
        uplink = httpTransport({ url, key, attempts: 1 }) as Uplink
      }
    } catch {
      // Half a file is no link; the next look finds the whole one.
      seen = null
    }
    return uplink
  }
}
