// The mark of a move. `countersign migrate` leaves one on both sides: the target is a copy and read-only until it is adopted; the source
// has moved and does not start again. Hosts, devices and inodes prove nothing: a restarted container is not a copy.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from '#kernel/log/store.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { WrappedValues } from '#stores/postgres/wrapped-values.ts'
import { StartError } from '../start-error.ts'
import { readText, writeAtomically } from './small-files.ts'

/** `copy_of`, `moved_to`: a data folder, or a database without its password. */
export type MoveMark = { readonly copy_of: string; readonly at: string } | { readonly moved_to: string; readonly at: string }

export type MarkFile = { read(): Promise<MoveMark | null>; write(mark: MoveMark | null): Promise<void> }

function markFrom(text: string | null, where: string): MoveMark | null {
  if (text === null) return null
  try {
    const mark = JSON.parse(text) as MoveMark
    if (typeof mark.at === 'string' && ('copy_of' in mark || 'moved_to' in mark)) return mark
  } catch {
    // Said below.
  }
  throw new StartError(
    `${where} cannot be read: it says whether this installation is a copy or was moved. Restore it, or remove it to start without it`,
  )
}

export function markIn(data: string): MarkFile {
  const path = join(data, 'move.json')
  return {
    read: async () => markFrom(await readText(path), path),
    write: async (mark) => (mark === null ? rmSync(path, { force: true }) : writeAtomically(path, `${JSON.stringify(mark)}\n`)),
  }
}

const MARK_NAME = 'move mark'

export function sharedMark(values: WrappedValues): MarkFile {
  return {
    async read() {
      const text = (await values.read(MARK_NAME))?.text ?? ''
      return markFrom(text === '' ? null : text, 'the move mark in the database')
    },
    async write(mark) {
      const version = (await values.read(MARK_NAME))?.version ?? 0
      await values.write(MARK_NAME, mark === null ? '' : JSON.stringify(mark), version)
    },
  }
}

/** A database by its host and name: the password in its URL stays out of marks, logs and answers. */
export function placeOf(url: string): string {
  const { host, pathname } = new URL(url)
  return `postgres://${host}${pathname}`
}

/** Why a server only serves reads. */
export type Quiet = { readonly why: string; readonly next: string }

/** Null: the server can write. An installation that was moved away starts only read-only. */
export function quietBy(mark: MoveMark | null, isReadOnly: boolean): Quiet | null {
  if (isReadOnly) return { why: 'this server was started with --read-only', next: 'restart it without --read-only to change anything' }
  if (mark === null) return null
  if ('moved_to' in mark)
    throw new StartError(`this installation was moved to ${mark.moved_to} at ${mark.at}: start that one, or read this one with --read-only`)
  return {
    why: `this is a copy of ${mark.copy_of}, made at ${mark.at}`,
    next: '`countersign adopt` makes it the installation; then restart it',
  }
}

/** The same store, which refuses every change. */
export function withoutWrites(store: Store, { why, next }: Quiet): Store {
  return { ...store, commit: () => Promise.reject(new Refusal('READ_ONLY', `${why}, so nothing can be changed here: ${next}`)) }
}
