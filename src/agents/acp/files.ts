// Files that an ACP agent reads and writes through its client: inside of the run's folder alone, links followed, and each call by the policy.
import type { ReadTextFileRequest, ReadTextFileResponse, WriteTextFileRequest, WriteTextFileResponse } from '@agentclientprotocol/sdk'
import { lstat, readFile, realpath, stat, writeFile } from 'node:fs/promises'
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
  const { size } = await stat(place).catch(() => {
    throw talk.sdk.RequestError.resourceNotFound(params.path)
  })
  if (size > limits.acpFileBytesMax)
    throw talk.sdk.RequestError.invalidParams({ path: params.path }, `a file has at most ${limits.acpFileBytesMax} bytes`)
  const from = Math.max(0, (line ?? 1) - 1)
  const shown = { path: name, ...(line ? { line } : {}), ...(limit ? { limit } : {}) }
  const act = async (): Promise<ReadTextFileResponse> => {
    const content = await readFile(place, 'utf8')
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
    // A link that was made while a person decided leads elsewhere.
    if ((await insideOf(talk, path)).place !== place) throw talk.sdk.RequestError.invalidParams({ path }, 'path leads elsewhere now')
    await writeFile(place, content)
    return {}
  }
  return perform(talk, sessionId, { kind: 'write_text_file', what: `writing ${name}`, arguments: { path: name, content }, act }, signal)
}
