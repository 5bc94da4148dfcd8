// The table of actions: everything that a person can be asked to do. A new action is a file in this folder, and a line in each of the two lists.
import { either, t, type Static } from '#kernel/declare/schema.ts'
import type { HumanAction } from './action.ts'
import { approve } from './approve.ts'
import { decide } from './decide.ts'
import { provide } from './provide.ts'
import { verify } from './verify.ts'

const table = { DECIDE: decide, APPROVE: approve, PROVIDE: provide, VERIFY: verify } as const satisfies Readonly<
  Record<string, HumanAction>
>
export type Action = keyof typeof table
export const actionNames = Object.keys(table) as Action[]
export const Action = either(...actionNames)

/** The stored payload of any action. Each has a first field that no other has. */
export const Payload = t.Union([decide.payload, approve.payload, provide.payload, verify.payload])
export type Payload = Static<typeof Payload>

type Known = HumanAction & { readonly asks: (typeof table)[Action]['asks'] }
export const actions: Readonly<Record<Action, Known>> = table
export const actionOf = ({ action }: { readonly action: Action }): Known => actions[action]
/** The question in an action of the draft, for pages that know no other. */
export function knownForm<R extends { readonly action: Action; readonly payload: object }>(request: R): R {
  const known = actionOf(request).asKnown?.(request.payload)
  return known === undefined ? request : { ...request, ...known }
}
/** Names of the actions that have a trait, as a sentence lists them. */
export function actionsWith(trait: keyof HumanAction): string {
  const names = actionNames.filter((name) => actions[name][trait] !== undefined)
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)!}`
}
export const actionVerbs = actionNames.map((name) => actions[name].asks)
