// File tools, all of them behind the path guard of the policy.
import { limits } from '#kernel/limits.ts'
import type { Execute } from './tool.ts'

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

export const fileTools: Readonly<Record<string, Execute>> = {
  'file.read': read,
  'file.write': write,
  'file.list': ({ guardOf }, { args, policy }) => ({ result: { entries: guardOf(policy).list(pathIn(args)) } }),
  'file.stat': ({ guardOf }, { args, policy }) => ({ result: guardOf(policy).stat(pathIn(args)) }),
}
