// The changes of a run to its work folder, computed from snapshots, because agents report only parts of their edits. A snapshot is a git tree in
// a separate repository: the folder need not be one, and a repository in it stays untouched.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { lstat, mkdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { limits } from '#kernel/limits.ts'

const run = promisify(execFile)
const SNAPSHOT_MS_MAX = 120_000

export type Patch = { readonly text: string; readonly files: readonly string[]; readonly isCut: boolean }
export type WorkFolder = {
  /** The id of the folder's present content. */
  snapshot(): Promise<string>
  /** Null: nothing has changed. */
  patchSince(snapshot: string): Promise<Patch | null>
  forget(): Promise<void>
}

/** `run_id` names the repository, so that a restart finds the snapshots of the run again. */
export function openWorkFolder(folder: string, run_id: string): WorkFolder {
  const repository = join(tmpdir(), `countersign-acp-${createHash('sha256').update(`${run_id}\0${folder}`).digest('hex').slice(0, 24)}`)
  async function git(...args: string[]): Promise<string> {
    const { GIT_DIR: _, GIT_INDEX_FILE: __, GIT_WORK_TREE: ___, ...env } = process.env
    const settings = ['-c', 'core.autocrlf=false', '-c', 'core.hooksPath=/dev/null', '-c', 'core.fsmonitor=false', '-c', 'diff.external=']
    const { stdout } = await run('git', ['--git-dir', repository, '--work-tree', folder, ...settings, ...args], {
      cwd: folder,
      env,
      maxBuffer: limits.patchBytesMax + 1_024,
      timeout: SNAPSHOT_MS_MAX,
    })
    return stdout
  }
  async function snapshot(): Promise<string> {
    await mkdir(repository, { recursive: true, mode: 0o700 })
    // Git runs programs that the settings of a repository name, so a repository of another user is refused.
    const stats = await lstat(repository)
    if (!stats.isDirectory() || stats.uid !== process.getuid?.()) throw new Error(`${repository} belongs to another user: remove it`)
    await git('init', '--quiet')
    await git('add', '--all', '--ignore-errors', '.')
    return (await git('write-tree')).trim()
  }
  return {
    snapshot,
    async patchSince(before) {
      const after = await snapshot()
      if (after === before) return null
      const names = await git('diff', '--no-renames', '--name-only', '-z', before, after)
      const files = names.split('\0').filter((name) => name !== '')
      try {
        return { text: await git('diff', '--no-renames', '--no-ext-diff', '--no-textconv', '--binary', before, after), files, isCut: false }
      } catch (error) {
        if ((error as { code?: unknown }).code !== 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') throw error
        return { text: `The patch is too long. These files changed:\n${files.join('\n')}\n`, files, isCut: true }
      }
    },
    forget: () => rm(repository, { recursive: true, force: true }),
  }
}
