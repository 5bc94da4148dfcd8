// A batch of events as CloudEvents, cut by number and by bytes, from what follows in the record of a project.
import { limits } from '#kernel/limits.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import { eventOf, lineIn } from '#protocols/collaboration/record/audit-view.ts'
import { cloudEventOf, cloudEventType } from '#protocols/collaboration/record/cloud-event.ts'
import { wantsType } from '#protocols/execution/notices/event-channel.ts'

/** `upTo`: the number of the last event that is in it or is not wanted. */
export type EventBatch = { readonly events: readonly string[]; readonly first: number; readonly upTo: number }

/** At least one event, however large it is: nothing is left out, and nothing overtakes it. */
export function batchFrom(facts: readonly StoredFact[], types: readonly string[], origin: string, after: number): EventBatch {
  const events: string[] = []
  let [bytes, first, upTo] = [0, 0, after]
  for (const fact of facts) {
    if (wantsType(types, cloudEventType(lineIn(fact).action))) {
      const text = JSON.stringify(cloudEventOf(eventOf(fact, 'keeper'), origin))
      bytes += Buffer.byteLength(text)
      if (events.length > 0 && bytes > limits.eventBatchBytesMax) break
      if (events.length === 0) first = fact.seq
      events.push(text)
    }
    upTo = fact.seq
  }
  return { events, first, upTo }
}
