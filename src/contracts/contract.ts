// The constructor of contracts between two protocols: the names of event and operation give the types of subject and input.
import type { KindOf } from '#kernel/declare/facts.ts'
import type { Contract } from '#kernel/declare/operation.ts'
import type { Doc, Static } from '#kernel/declare/schema.ts'
import type { EventTables, Operations } from '#protocols/index.ts'

type Name = keyof EventTables & keyof Operations

export type EventOf<P extends Name> = keyof EventTables[P] & string
type Stored<D> = D extends Doc<infer S> ? Static<S> : never
/** The document that an event is about. */
export type SubjectOf<P extends Name, E extends EventOf<P>> = Stored<KindOf<EventTables[P][E]>>

type CommandIn<P extends Name> = Extract<Operations[P], { kind: 'command' }>
type CommandOf<P extends Name> = CommandIn<P>['name']
type InputOf<P extends Name, C extends CommandOf<P>> = Static<Extract<CommandIn<P>, { name: C }>['input']>

export type Terms<V> = Partial<Pick<Contract<V>, 'as' | 'basis' | 'refused' | 'when'>>
type Route<F extends Name, T extends Name> = {
  readonly from: F
  readonly to: T
  /** The first part of the names of these contracts, by which the record calls them; `from-to` without it. */
  readonly label?: string
  readonly refused?: NonNullable<Contract['refused']>
}

/** A contract acts as the system unless its terms say otherwise. */
export const contractsBetween =
  <F extends Name, T extends Name>(route: Route<F, T>) =>
  <E extends EventOf<F>, C extends CommandOf<T>>(
    name: string,
    on: E,
    call: C,
    input: Contract<SubjectOf<F, E>, InputOf<T, C>>['input'],
    terms: Terms<SubjectOf<F, E>> = {},
  ): Contract =>
    contractOf(route, name, on, call, { ...terms, input })

/** Forwards an input that an agent wrote. The contract knows only some fields; the called operation validates the rest. */
export const forwardsBetween =
  <F extends Name, T extends Name>(route: Route<F, T>) =>
  <E extends EventOf<F>, C extends CommandOf<T>>(
    name: string,
    on: E,
    call: C,
    input: Contract<SubjectOf<F, E>, Partial<InputOf<T, C>>>['input'],
    terms: Terms<SubjectOf<F, E>> = {},
  ): Contract =>
    contractOf(route, name, on, call, { ...terms, input })

function contractOf(
  { from, to, label = `${from}-${to}`, ...shared }: Route<Name, Name>,
  name: string,
  on: string,
  call: string,
  rest: Partial<Contract> & Pick<Contract, 'input'>,
): Contract {
  return { name: `${label}/${name}`, on: `${from}/${on}`, call: `${to}/${call}`, as: 'system', ...shared, ...rest }
}

/** One contract for each of these events. */
export const onEach = <const E extends string>(events: readonly E[], contractOn: (event: E) => Contract): Contract[] =>
  events.map(contractOn)

/** A text of a fact's detail. */
export const textIn = (detail: Readonly<Record<string, unknown>> | null, name: string): string | undefined => {
  const value = detail?.[name]
  return typeof value === 'string' ? value : undefined
}
