// The changes of a run to its work folder, reckoned by us: agents report fragments of their edits, and not all of them. A snapshot is a tree
// of git in a repository of our own, so the folder need not be one, and its own repository is not touched.
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

/** `run_id`: the snapshots of a run are found again after a restart. */
export function openWorkFolder(folder: string, run_id: string): WorkFolder {
  const own = join(tmpdir(), `countersign-acp-${createHash('sha256').update(`${run_id}\0${folder}`).digest('hex').slice(0, 24)}`)
  async function git(...args: string[]): Promise<string> {
    const { GIT_DIR: _, GIT_INDEX_FILE: __, GIT_WORK_TREE: ___, ...env } = process.env
    const settings = ['-c', 'core.autocrlf=false', '-c', 'core.hooksPath=/dev/null', '-c', 'core.fsmonitor=false', '-c', 'diff.external=']
    const { stdout } = await run('git', ['--git-dir', own, '--work-tree', folder, ...settings, ...args], {
      cwd: folder,
      env,
      maxBuffer: limits.patchBytesMax + 1_024,
      timeout: SNAPSHOT_MS_MAX,
    })
    return stdout
  }
  async function snapshot(): Promise<string> {
    await mkdir(own, { recursive: true, mode: 0o700 })
    // Git runs what the settings of a repository name, and another user could have made this one.
    const made = await lstat(own)
    if (!made.isDirectory() || made.uid !== process.getuid?.()) throw new Error(`${own} belongs to another user: remove it`)
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
    forget: () => rm(own, { recursive: true, force: true }),
  }
}
