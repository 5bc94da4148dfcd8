// The first start: creates a project, an owner, and an admin key. Each step checks first, so that a start after a crash resumes where the
// last one ended, and later changes are preserved.
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import { authenticate, partsOf } from '#protocols/identity/authenticate.ts'
import { ADMIN_SERVICE, DEFAULT_PROJECT, Project, User } from '#protocols/identity/schema.ts'
import { readText, writeAtomically } from './small-files.ts'
import { closeToOthers } from './key-files.ts'

export const OWNER = 'user_owner'

/** `isShared`: each server has an admin key in its folder, and all of them are valid. */
export async function setUp(kernel: Kernel, adminKey: string, isShared = false): Promise<void> {
  const find = async (doc: { kind: string }, id: string) => (await kernel.store.read([keyOf(doc, id)]))[0]
  if (!(await find(Project, DEFAULT_PROJECT))) await kernel.call('identity/project.add', { id: DEFAULT_PROJECT, name: 'Default' }, SYSTEM)
  if (!(await find(User, OWNER))) await kernel.call('identity/user.add', { id: OWNER, name: 'Owner', role: 'owner' }, SYSTEM)
  // Only version 1 is new. A later version was changed on purpose.
  if ((await find(User, OWNER))?.version === 1) {
    await kernel.call('identity/project.join', { project_id: DEFAULT_PROJECT, subject: OWNER, role: 'owner' }, SYSTEM)
  }
  if (isShared) await ensureSharedAdminKey(kernel, adminKey)
  else await ensureAdminKey(kernel, adminKey)
}

/** The first server makes one; `countersign admin-key` makes another. No start takes one away. */
async function ensureSharedAdminKey(kernel: Kernel, path: string): Promise<void> {
  if ((await idOfGoodKey(kernel, path)) !== null) return closeToOthers(path, 0o600)
  if ((await adminKeys(kernel)).length === 0) await issueAdminKey(kernel, path)
}

const adminKeys = async (kernel: Kernel): Promise<readonly { readonly id: string }[]> =>
  ((await kernel.call('identity/key.list', { subject: ADMIN_SERVICE, limit: limits.pageMax }, SYSTEM)) as { items: { id: string }[] }).items

export async function revokeAdminKeys(kernel: Kernel): Promise<void> {
  for (const { id } of await adminKeys(kernel)) await kernel.call('identity/key.revoke', { key_id: id }, SYSTEM)
}

export async function issueAdminKey(kernel: Kernel, path: string): Promise<void> {
  const { key } = (await kernel.call('identity/key.issue', { subject: ADMIN_SERVICE, label: 'admin.key' }, SYSTEM)) as { key: string }
  return writeAtomically(path, `${key}\n`)
}

async function ensureAdminKey(kernel: Kernel, path: string): Promise<void> {
  const good = await idOfGoodKey(kernel, path)
  const items = await adminKeys(kernel)
  // Only the server issues these keys: any other key is a rest of a lost file or of an unfinished start.
  for (const { id } of items) if (id !== good) await kernel.call('identity/key.revoke', { key_id: id }, SYSTEM)
  return good === null ? issueAdminKey(kernel, path) : closeToOthers(path, 0o600)
}

async function idOfGoodKey(kernel: Kernel, path: string): Promise<string | null> {
  const token = (await readText(path))?.trim()
  if (!token) return null
  try {
    const actor = await authenticate(kernel.store, { kind: 'bearer', token }, kernel.now())
    return actor.id === ADMIN_SERVICE ? `key_${partsOf(token).id}` : null
  } catch (error) {
    if (error instanceof Refusal && error.code === 'UNAUTHENTICATED') return null
    throw error
  }
}

/** A path that signs the owner in, once; null when the owner was switched off. */
export async function ownerLogin(kernel: Kernel): Promise<string | null> {
  try {
    const { token } = (await kernel.call('identity/login.issue', { user_id: OWNER }, SYSTEM)) as { token: string }
    return `/login?token=${token}`
  } catch (error) {
    if (error instanceof Refusal && error.code === 'PRECONDITION_FAILED') return null
    throw error
  }
}
