// Files that an ACP agent reads and writes through its client: inside of the run's folder alone, links followed, and each call by the policy.
import type { ReadTextFileRequest, ReadTextFileResponse, WriteTextFileRequest, WriteTextFileResponse } from '@agentclientprotocol/sdk'
import { constants } from 'node:fs'
import { lstat, open, realpath, stat, type FileHandle } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative } from 'node:path'
import { limits } from '#kernel/limits.ts'
import type { Action } from './questions.ts'
import type { Talk } from './talk.ts'
import { isOutside } from './tool-calls.ts'

/** Where a path leads; the last part need not exist. */
async function placeOf(path: string): Promise<string> {
  const place = join(await realpath(dirname(path)), basename(path))
  const isThere = await lstat(place).then(
    () => true,
    () => false,
  )
  return isThere ? realpath(place) : place
}

/** The place of a path in the run's folder, or a refusal in the words of ACP. */
async function insideOf({ sdk, plan }: Talk, path: string): Promise<{ place: string; name: string }> {
  if (!isAbsolute(path)) throw sdk.RequestError.invalidParams({ path }, 'path must be absolute')
  const folder = await realpath(plan.cwd)
  const place = await placeOf(path).catch(() => {
    throw sdk.RequestError.resourceNotFound(path)
  })
  if (isOutside(place, folder)) throw sdk.RequestError.invalidParams({ path }, 'path is outside of the folder of this run')
  return { place, name: relative(folder, place) }
}

/**
 * The file at a place that was decided about. A link or a folder that was swapped in meanwhile leads elsewhere, and a pipe would wait for ever:
 * the file that is open has to be the one that the path leads to now.
 */
async function withFile<T>(talk: Talk, path: string, place: string, flags: number, act: (file: FileHandle) => Promise<T>): Promise<T> {
  const refuse = (why: string): never => {
    throw talk.sdk.RequestError.invalidParams({ path }, why)
  }
  const file = await open(place, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => refuse('path leads elsewhere now'))
  try {
    const opened = await file.stat()
    if (!opened.isFile()) refuse('path is not a regular file')
    const now = await stat(place)
    const isSame = now.ino === opened.ino && now.dev === opened.dev && (await insideOf(talk, path)).place === place
    if (!isSame) refuse('path leads elsewhere now')
    return await act(file)
  } finally {
    await file.close()
  }
}

/** At most so many bytes, whatever the file has grown to; null: it has more. */
async function textIn(file: FileHandle): Promise<string | null> {
  const bytes = Buffer.alloc(limits.acpFileBytesMax + 1)
  let size = 0
  for (;;) {
    const { bytesRead } = await file.read(bytes, size, bytes.length - size, size)
    size += bytesRead
    if (bytesRead === 0) return bytes.toString('utf8', 0, size)
    if (size > limits.acpFileBytesMax) return null
  }
}

async function perform<T>(talk: Talk, sessionId: string, action: Action<T>, signal: AbortSignal): Promise<T> {
  const { sdk, questions } = talk
  if (sessionId !== talk.session_id || questions === null || !talk.isPrompted)
    throw sdk.RequestError.invalidParams({ sessionId }, 'no prompt of this session is open')
  const result = await questions.perform(action, signal)
  if (result === null) throw sdk.RequestError.invalidParams(undefined, `${action.what} was not allowed, and nothing was done`)
  return result
}

export async function readFor(talk: Talk, params: ReadTextFileRequest, signal: AbortSignal): Promise<ReadTextFileResponse> {
  const { line, limit } = params
  const { place, name } = await insideOf(talk, params.path)
  const refuseLarge = (): never => {
    throw talk.sdk.RequestError.invalidParams({ path: params.path }, `a file has at most ${limits.acpFileBytesMax} bytes`)
  }
  const { size } = await stat(place).catch(() => {
    throw talk.sdk.RequestError.resourceNotFound(params.path)
  })
  if (size > limits.acpFileBytesMax) refuseLarge()
  const from = Math.max(0, (line ?? 1) - 1)
  const shown = { path: name, ...(line ? { line } : {}), ...(limit ? { limit } : {}) }
  const act = async (): Promise<ReadTextFileResponse> => {
    const content = (await withFile(talk, params.path, place, constants.O_RDONLY, textIn)) ?? refuseLarge()
    if (!line && !limit) return { content }
    return {
      content: content
        .split('\n')
        .slice(from, limit ? from + limit : undefined)
        .join('\n'),
    }
  }
  return perform(talk, params.sessionId, { kind: 'read_text_file', what: `reading ${name}`, arguments: shown, act }, signal)
}

export async function writeFor(talk: Talk, params: WriteTextFileRequest, signal: AbortSignal): Promise<WriteTextFileResponse> {
  const { path, content, sessionId } = params
  const { place, name } = await insideOf(talk, path)
  const act = async (): Promise<WriteTextFileResponse> => {
    await withFile(talk, path, place, constants.O_WRONLY | constants.O_CREAT, async (file) => {
      await file.truncate(0)
      await file.writeFile(content)
    })
    return {}
  }
  return perform(talk, sessionId, { kind: 'write_text_file', what: `writing ${name}`, arguments: { path: name, content }, act }, signal)
}
