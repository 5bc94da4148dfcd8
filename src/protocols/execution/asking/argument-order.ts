// The order in which an agent wrote its arguments. Documents keep names sorted; people read them as they were written.
import { isObject } from '#kernel/codec/strict-json.ts'

const pointer = (path: string, name: string): string => `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
function namesIn(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((entry) => namesIn(entry, path))
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([name, inner]) => [pointer(path, name), ...namesIn(inner, pointer(path, name))])
}

/** JSON pointers to every name, without list indexes; undefined: the names are in sorted order. */
export function orderIn(details: object): string[] | undefined {
  const names = [...new Set(namesIn(details))]
  return names.every((name, i) => i === 0 || names[i - 1]! < name) ? undefined : names
}
