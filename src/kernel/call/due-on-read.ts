// Due documents on read. A server that holds the timers acts on a due document before it shows it, because the timer can be a moment late. The
// caller has been authorized by then. Every other server shows the recorded document: only one clock decides about deadlines.
import { timestampOf } from '../ports/clock.ts'
import { Refusal } from '../declare/errors.ts'
import { SYSTEM, type Actor } from '../declare/access.ts'
import { limits } from '../limits.ts'
import { keyOf, type AnyDoc } from '../declare/schema.ts'
import type { Store } from '../log/store.ts'
import type { Caller } from '../log/streams.ts'

/** The document that a call looks at, and the input field that holds its id. */
export type LooksAt = { readonly doc: AnyDoc; readonly field: string }

/** The right to act on due documents, which one server at a time has. */
export type Timekeeper = {
  holds(): boolean
  /** The system, for as long as this server has the right. */
  as(more?: Partial<Actor>): Caller
  /** The time by which deadlines pass for a server without the right; null: its own clock decides. */
  time(): number | null
}
/** A process that shares its store with no other. */
export const timekeeperAlone: Timekeeper = { holds: () => true, as: (more) => ({ ...SYSTEM, ...more }), time: () => null }

export type DueOnRead = (at: LooksAt | undefined, input: unknown) => Promise<boolean> | false

type Call = (operation: string, input: object, as: Caller) => Promise<unknown>

/**
 * Returns whether it acted on the document, so that the caller reads it again. In the usual case nothing is due, and it returns false
 * synchronously.
 */
export function createDueOnRead(store: Store, now: () => number, call: Call, { holds, as }: Timekeeper = timekeeperAlone): DueOnRead {
  async function settle(doc: AnyDoc, key: string): Promise<boolean> {
    for (let done = 0; done < limits.settledMax; done++) {
      const [found] = await store.read([key])
      const due = found && doc.due(found.value)
      if (!due || due.at > timestampOf(now())) return done > 0
      try {
        await call(due.call, due.input, as({ basis: { kind: 'timer', id: key } }))
      } catch (error) {
        // The timer was faster, or acting on the document is refused now: the caller sees its current state.
        if (error instanceof Refusal) return true
        throw error
      }
    }
    return true
  }
  return (at, input) => {
    const id = at && (input as Readonly<Record<string, unknown>>)[at.field]
    if (typeof id !== 'string' || !holds()) return false
    const key = keyOf(at!.doc, id)
    const found = store.peek?.(key)
    const due = found ? at!.doc.due(found.value) : undefined
    return found && (due === null || due!.at > timestampOf(now())) ? false : settle(at!.doc, key)
  }
}
