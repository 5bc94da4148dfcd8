// Bytes from a file or from standard input, bounded.
import { readFile, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { limits } from '#kernel/limits.ts'
import { CliError, exits, usage } from '../exit-codes.ts'
import type { Io } from '../terminal.ts'

/** One input has at most what one request may have. */
export async function readInput(io: Io, path: string, bytesMax: number = limits.bodyBytesMax): Promise<Buffer> {
  if (path === '-') return readAll(io.input, bytesMax)
  const { size, file } = await sizeOf(io, path)
  if (size > bytesMax) throw usage(`${path} has ${size} bytes; at most ${bytesMax} are possible here`)
  return readFile(file)
}

export async function sizeOf(io: Io, path: string): Promise<{ size: number; file: string }> {
  const file = resolve(io.cwd, path)
  try {
    const found = await stat(file)
    if (!found.isFile()) throw usage(`${path} is not a file`)
    return { size: found.size, file }
  } catch (error) {
    if (error instanceof CliError) throw error
    const { code } = error as NodeJS.ErrnoException
    const message = code === 'ENOENT' ? `there is no file ${path}` : `${path} cannot be read: ${code ?? String(error)}`
    throw new CliError(exits.usage, 'FILE', message)
  }
}

async function readAll(stream: NodeJS.ReadableStream, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream) {
    const bytes = Buffer.from(chunk as Buffer)
    size += bytes.length
    if (size > bytesMax) throw usage(`standard input has more than the ${bytesMax} bytes that are possible here`)
    chunks.push(bytes)
  }
  return Buffer.concat(chunks)
}
