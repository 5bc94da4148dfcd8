// Due documents on read. A read judges by the clock as a write does: a document that is due is acted on before anybody looks at it, also
// while the worker that does such things has not come to it, because the clock has stepped or there is much to do.
import { timestampOf } from '../ports/clock.ts'
import { Damaged, Refusal } from '../declare/errors.ts'
import { SYSTEM, type Actor } from '../declare/access.ts'
import { limits } from '../limits.ts'
import { keyOf, type AnyDoc, type Due } from '../declare/schema.ts'
import type { Store } from '../log/store.ts'

/** The document that a call looks at, by the field of its input that names it. */
export type LooksAt = { readonly doc: AnyDoc; readonly field: string }

type Call = (operation: string, input: object, as: Actor) => Promise<unknown>

/** Answers at once where nothing is due, as nearly always. */
export function createSettling(store: Store, now: () => number, call: Call) {
  const dueOf = (doc: AnyDoc, value: object): Due | null => {
    const due = doc.due(value)
    return due !== null && due.at <= timestampOf(now()) ? due : null
  }
  async function settle(doc: AnyDoc, key: string): Promise<void> {
    for (let done = 0; done < limits.settledMax; done++) {
      const [found] = await store.read([key]).catch((error: unknown) => {
        // The reader says so to those who may know of it.
        if (error instanceof Damaged) return []
        throw error
      })
      const due = found && dueOf(doc, found.value)
      if (!due) return
      try {
        await call(due.call, due.input, { ...SYSTEM, basis: { kind: 'timer', id: key } })
      } catch (error) {
        // The worker was faster, or it cannot be done now: whoever looks sees what is there.
        if (error instanceof Refusal) return
        throw error
      }
    }
  }
  return (at: LooksAt | undefined, input: unknown, answer: () => Promise<unknown>): Promise<unknown> => {
    const id = at && (input as Readonly<Record<string, unknown>> | null)?.[at.field]
    if (typeof id !== 'string') return answer()
    const key = keyOf(at!.doc, id)
    const found = store.peek?.(key)
    return found && dueOf(at!.doc, found.value) === null ? answer() : settle(at!.doc, key).then(answer)
  }
}
