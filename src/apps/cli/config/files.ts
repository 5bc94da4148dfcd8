// The files of a configuration, joined into one: a file, all files of a folder, or standard input.
import { readdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { isObject } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { readInput } from '../input/read-input.ts'
import { usage } from '../exit-codes.ts'
import type { Io } from '../terminal.ts'
import { Misplaced, readDocument, type Document, type Place } from './document.ts'

/** `placeOf`: the place of a path, or of the nearest part above it that is in a file. */
export type Joined = { readonly value: Record<string, unknown>; placeOf(path: string): Place }

/** Fields whose entries are joined by name; every other field is in one file alone. */
const MAPS = ['people', 'agents', 'projects']

export async function readConfig(io: Io, path: string): Promise<Joined> {
  const files = path === '-' ? ['-'] : await filesAt(io, path)
  const documents: Document[] = []
  for (const file of files) documents.push(readDocument(file, (await readInput(io, file, limits.configFileBytesMax)).toString()))
  return joinDocuments(documents)
}

async function filesAt(io: Io, path: string): Promise<string[]> {
  const folder = resolve(io.cwd, path)
  const isFolder = await stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (!isFolder) return [path]
  const names = (await readdir(folder)).filter((name) => /\.(?:ya?ml|json)$/.test(name)).toSorted()
  if (names.length === 0) throw usage(`${path} has no file that ends in .yaml, .yml or .json`)
  if (names.length > limits.configFilesMax) throw usage(`${path} has ${names.length} files; at most ${limits.configFilesMax} are possible`)
  return names.map((name) => join(path, name))
}

function joinDocuments(documents: readonly Document[]): Joined {
  const value: Record<string, unknown> = {}
  const places = new Map<string, Place>()
  for (const document of documents) {
    const { file, value: part, lines } = document
    const placeIn = (path: string): Place => ({ file, line: lines.get(path) ?? 1 })
    if (!isObject(part)) throw new Misplaced(file, 1, 'a configuration is a list of fields such as people and projects')
    for (const [field, inner] of Object.entries(part)) {
      const held = value[field]
      if (!MAPS.includes(field) || !isObject(inner)) refuseTwice(field, placeIn(field), places)
      if (isObject(held) && isObject(inner))
        for (const name of Object.keys(inner)) refuseTwice(`${field}.${name}`, placeIn(`${field}.${name}`), places)
      value[field] = isObject(held) && isObject(inner) ? { ...held, ...inner } : inner
    }
    for (const [path, line] of lines) if (!places.has(path)) places.set(path, { file, line })
  }
  return { value, placeOf: (path) => nearest(path, places) ?? { file: documents[0]!.file, line: 1 } }
}

function refuseTwice(path: string, { file, line }: Place, places: ReadonlyMap<string, Place>): void {
  const first = places.get(path)
  if (first) throw new Misplaced(file, line, `${path} is given twice, first in ${first.file}:${first.line}`)
}

function nearest(path: string, places: ReadonlyMap<string, Place>): Place | undefined {
  for (let at = path; at !== ''; at = at.slice(0, Math.max(0, at.lastIndexOf('.')))) {
    const found = places.get(at)
    if (found) return found
  }
  return undefined
}
