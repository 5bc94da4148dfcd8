// Writing an upload to its file: counted and hashed in reused buffers.
import { createHash } from 'node:crypto'
import { open, type FileHandle } from 'node:fs/promises'
import type { Announced, Received } from '#kernel/ports/blobs.ts'
import { countingOf } from './announced-bytes.ts'

const WRITE_BYTES = 256 * 1024
/** Buffers kept for the next upload. */
const SPARE_MAX = 8

/** Writes, counts and hashes. Stops at the first byte over the limit. */
export async function writeOut(
  temporary: string,
  source: AsyncIterable<Uint8Array>,
  announced: Announced,
  bytesMax: number,
  sync: (file: FileHandle) => Promise<void>,
  portions: Portions,
): Promise<Received> {
  const counting = countingOf(announced, bytesMax)
  const file = await open(temporary, 'wx', 0o600)
  const writer = writerTo(file, portions)
  try {
    for await (const chunk of source) {
      counting.add(chunk.length)
      await writer.write(chunk)
    }
    const received = counting.whole(await writer.flush())
    await sync(file)
    return received
  } finally {
    await writer.settled()
    await file.close()
  }
}

/** Copies incoming bytes, which are valid only until the next chunk, into its own buffers. Fills one buffer while the other is being written. */
function writerTo(file: FileHandle, portions: Portions) {
  let filling = portions.take()
  let bytes = 0
  let writing: Promise<void> = Promise.resolve()
  const hash = createHash('sha256')
  async function begin(): Promise<void> {
    const full = filling.subarray(0, bytes)
    hash.update(full)
    await writing
    const portion = filling
    writing = writeAll(file, full).finally(() => portions.give(portion))
    // Awaited with the next buffer; until then a rejection must not count as unhandled.
    writing.catch(() => undefined)
    filling = portions.take()
    bytes = 0
  }
  return {
    async write(chunk: Uint8Array): Promise<void> {
      for (let at = 0; at < chunk.length;) {
        const part = chunk.subarray(at, at + filling.length - bytes)
        filling.set(part, bytes)
        bytes += part.length
        at += part.length
        if (bytes === filling.length) await begin()
      }
    },
    async flush(): Promise<string> {
      await begin()
      await writing
      return hash.digest('hex')
    },
    async settled() {
      await writing.catch(() => undefined)
      portions.give(filling)
    },
  }
}

/** Writes all bytes: an almost full disk can write only a part at a time. */
async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += (await file.write(bytes, at)).bytesWritten
}

/** Reused buffers: allocating one per portion costs more in garbage collection than filling it. */
type Portions = { take(): Buffer; give(portion: Buffer): void }
export function createPortions(): Portions {
  const spare: Buffer[] = []
  return {
    take: () => spare.pop() ?? Buffer.allocUnsafeSlow(WRITE_BYTES),
    give(portion) {
      if (spare.length < SPARE_MAX) spare.push(portion)
    },
  }
}
