// The memory of hooks as files beside the agents' keys, one for each key: hooks of one turn are processes of their own.
import { mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Memory } from '#bridges/hooks/decide.ts'
import { limits } from '#kernel/limits.ts'
import { keysFolder, type Home } from '../gate/agent-keys.ts'

export function memoryFiles(home: Home): Memory {
  const folder = join(dirname(keysFolder(home)), 'left-calls')
  // Most hooks remember nothing, and `node:crypto` takes a tenth of their time to load.
  const fileOf = (key: string): string => join(folder, process.getBuiltinModule('node:crypto').hash('sha256', key, 'hex'))
  const isEmpty = unless('ENOENT', () => readdirSync(folder).length === 0) ?? true
  const read = (key: string): string | null => unless('ENOENT', () => readFileSync(fileOf(key), 'utf8'))
  let hasWritten = false
  return {
    read: async (key) => (isEmpty && !hasWritten ? null : read(key)),
    async write(key, text) {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      dropOld(folder)
      hasWritten = true
      return unless('EEXIST', () => (writeFileSync(fileOf(key), text, { flag: 'wx', mode: 0o600 }), true)) ?? false
    },
    async remove(key, text) {
      if (isEmpty && !hasWritten) return
      if (read(key) === text) rmSync(fileOf(key), { force: true })
      if (unless('ENOENT', () => readdirSync(folder).length === 0)) unless('ENOTEMPTY', () => rmdirSync(folder))
    },
  }
}

/** Calls that no session came back for. */
function dropOld(folder: string): void {
  for (const name of readdirSync(folder)) {
    const file = join(folder, name)
    const isOld = unless('ENOENT', () => Date.now() - statSync(file).mtimeMs > limits.leftCallMsMax)
    if (isOld) rmSync(file, { force: true })
  }
}

/** Null: the error with this code. */
function unless<T>(code: string, act: () => T): T | null {
  try {
    return act()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === code) return null
    throw error
  }
}
