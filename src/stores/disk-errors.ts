// Classes of disk errors: missing space or permissions, which are reported to callers, and pages in an unknown state, which end the
// process.
import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import { constants } from 'node:os'
import { Refusal, StoreUnavailable } from '#kernel/declare/errors.ts'

/** Node has no name for an exceeded quota, only its number. */
const isQuota = (error: unknown): boolean => (error as NodeJS.ErrnoException).errno === -constants.errno.EDQUOT
const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? ''

/** No space, no quota, a file size limit, no inodes, or a disk that went read-only. A later write might succeed. */
export const isOutOfRoom = (error: unknown): boolean => ['ENOSPC', 'EFBIG', 'EROFS'].includes(codeOf(error)) || isQuota(error)

const reasons: Readonly<Record<string, string>> = {
  EMFILE: 'the server has too many files open',
  ENFILE: 'the machine has too many files open',
  ENOMEM: 'the machine has no memory left',
  EACCES: 'the server has no permission to write to its folder of bytes',
  EPERM: 'the server has no permission to write to its folder of bytes',
  ENOENT: 'the folder of bytes is gone',
  ENOTDIR: 'the folder of bytes is gone',
  EIO: 'the disk failed',
}

/** The refusal of bytes that could not be stored. An error that is no disk error is returned unchanged. */
export function refusalOf(error: unknown): unknown {
  const message = isOutOfRoom(error) ? 'the disk has no room for these bytes' : reasons[codeOf(error)]
  if (message === undefined || error instanceof Refusal) return error
  return Object.assign(new StoreUnavailable(message, { retry_after: codeOf(error) === 'EMFILE' ? 1 : 60 }), { cause: error })
}

/**
 * Whether a file cannot grow because the disk has no space or became read-only. SQLite tells both apart from a full disk only, not from a
 * failing one. The check appends to the log and truncates it again; nothing reads behind the end of a log.
 */
export function cannotGrow(log: string): boolean {
  let file: number
  try {
    file = openSync(log, 'r+')
  } catch (error) {
    return mayPass(error)
  }
  try {
    const { size } = fstatSync(file)
    try {
      writeSync(file, PORTION, 0, PORTION.length, size)
      return false
    } catch (error) {
      return mayPass(error)
    } finally {
      ftruncateSync(file, size)
    }
  } catch {
    return false
  } finally {
    closeSync(file)
  }
}
/** A file size limit does not change while the process lives. */
const mayPass = (error: unknown): boolean => isOutOfRoom(error) && codeOf(error) !== 'EFBIG'
const PORTION = new Uint8Array(8_192)
