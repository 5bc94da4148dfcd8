// File tools, all behind the path guard of the policy.
import { createHash } from 'node:crypto'
import { limits } from '#kernel/limits.ts'
import type { Value } from '#kernel/log/store.ts'
import { builtIn, type DeviceTool, type Execute, type Target } from './tool.ts'

const pathIn = (args: Readonly<Record<string, unknown>>): string => String(args['path'])

const read: Execute = ({ guardOf }, { args, policy }) => {
  const offset = (args['offset'] as number | undefined) ?? 0
  const length = (args['length'] as number | undefined) ?? limits.fileBytesMax
  const { data, size, eof } = guardOf(policy).read(pathIn(args), offset, length)
  return { result: { data: data.toString('base64'), offset, size, eof } }
}

const write: Execute = ({ guardOf }, { args, policy }) => {
  const guard = guardOf(policy)
  const path = pathIn(args)
  const data = Buffer.from(String(args['data']), 'base64')
  const before = guard.write(path, data)
  return { result: { written: data.length }, undo: () => (before === null ? guard.remove(path) : void guard.write(path, before)) }
}

const readTarget = (args: Value): Target => ({ resource: null, target: pathIn(args) })
const writeTarget = (args: Value): Target => ({ resource: `file:${pathIn(args)}`, target: pathIn(args) })

export const fileTools: readonly DeviceTool[] = [
  builtIn('file.read', { target: readTarget, execute: read }),
  builtIn('file.write', {
    target: writeTarget,
    before(args, { guardOf }, policy) {
      if (policy === null) return null
      const { data, size } = guardOf(policy).read(pathIn(args), 0, policy.file_bytes_max)
      return { sha256: createHash('sha256').update(data).digest('hex'), size }
    },
    execute: write,
  }),
  builtIn('file.list', {
    target: readTarget,
    execute: ({ guardOf }, { args, policy }) => ({ result: { entries: guardOf(policy).list(pathIn(args)) } }),
  }),
  builtIn('file.stat', {
    target: readTarget,
    execute: ({ guardOf }, { args, policy }) => ({ result: guardOf(policy).stat(pathIn(args)) }),
  }),
]
