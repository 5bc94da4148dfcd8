// Requests as agents make them, and inboxes as people read them.
import type { World } from '../in-process/world.ts'

export type Call = (as: string, operation: string, input?: object, options?: { key?: string }) => Promise<any>

/** An agent asks, by default for an approval. */
export async function ask({ call }: { call: Call }, as: string, more: object = {}): Promise<any> {
  const asked = { action: 'APPROVE', payload: { item: 'Send the newsletter', details: { readers: 1_200 } }, ...more }
  return (await call(as, 'execution/request.create', asked)).request
}
export const item = (message: string): object => ({ payload: { item: message, details: {} } })

/** Every page of an inbox, one after the other. */
export async function allOf({ call }: { call: Call }, as: string, input: object = {}): Promise<any[]> {
  const items: any[] = []
  for (let cursor: string | null = null; ;) {
    const page: { items: any[]; next_cursor: string | null } = await call(as, 'execution/inbox.list', {
      ...input,
      ...(cursor === null ? {} : { cursor }),
    })
    items.push(...page.items)
    if (page.next_cursor === null) return items
    cursor = page.next_cursor
  }
}
export const titlesOf = (items: readonly { title: string }[]): string[] => items.map(({ title }) => title)

/** Adds a changed copy of a cast member under a new name. */
export const castAs = (world: World, name: string, like: string, more: object): string => {
  Object.assign(world.cast, { [name]: { ...world.cast[like]!, ...more } })
  return name
}
