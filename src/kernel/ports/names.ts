// The port of names: the names of people, agents and projects as they are now, for any caller.
import type { Read } from '../declare/operation.ts'

export type Registered = { readonly name: string; readonly created_at: string; readonly owner: string | null }

export type Names = {
  /** By the kind that the id says; null: there is none, as for services and the system. */
  named(read: Read, id: string): Promise<Registered | null>
  /** The ids of all projects, up to a bound: for callers that are in all of them. */
  projects(read: Read, limit: number): Promise<readonly string[]>
}
