// A store: one value outside of React, whose changes re-render the components that use it, and listeners of an event.
import { useSyncExternalStore } from 'react'

export type Listeners<A extends readonly unknown[] = []> = { add(listener: (...args: A) => void): () => void; notify(...args: A): void }

export function createListeners<A extends readonly unknown[] = []>(): Listeners<A> {
  const listeners = new Set<(...args: A) => void>()
  return {
    add(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    notify(...args) {
      for (const listener of listeners) listener(...args)
    },
  }
}

export type Store<T> = {
  get(): T
  set(next: T): void
  subscribe(listener: () => void): () => void
  /** The value, or the part of it that `select` returns: the component renders again only if that part changes. */
  use(): T
  use<S>(select: (value: T) => S): S
}

export function createStore<T>(initial: T): Store<T> {
  const { add: subscribe, notify } = createListeners()
  let value = initial
  function use(): T
  function use<S>(select: (value: T) => S): S
  function use<S>(select?: (value: T) => S): S | T {
    return useSyncExternalStore(subscribe, () => (select ? select(value) : value))
  }
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return
      value = next
      notify()
    },
    subscribe,
    use,
  }
}
