// The port of names: the names of people, agents and projects as they are now, for any caller.
import type { ProjectRole } from '../declare/access.ts'
import type { Read } from '../declare/operation.ts'

export type Registered = { readonly name: string; readonly created_at: string; readonly owner: string | null }

export type KnownGroupLink = {
  readonly name: string
  readonly issuer: string
  readonly claim: string
  readonly role: ProjectRole
  readonly at: string
}

export type Names = {
  /** Groups of issuers that are linked to groups of a project. */
  groupLinks(read: Read, project_id: string): Promise<readonly KnownGroupLink[]>
  /** By the kind that the id says; null: there is none, as for services and the system. */
  named(read: Read, id: string): Promise<Registered | null>
  /** The ids of all keys that receipts were signed with, the present one first. */
  receiptKeys(read: Read): Promise<readonly string[]>
  /** The ids of all projects, up to a bound: for callers that are in all of them. */
  projects(read: Read, limit: number): Promise<readonly string[]>
}
