// Mistakes that are planted into what stands between a session and the broker, one at a time, with a seed whose history finds each of them.
import type { Mistake } from '../mistakes.ts'

const one = (name: string, file: string, find: string, replace: string): Mistake => ({ name, patches: [{ file, find, replace }] })
const ANSWERS = 'protocols/harness/session/answers.ts'

export const harnessMistakes: readonly Mistake[] = [
  one(
    'acknowledged-before-the-commit',
    'bridges/hcp/inbound.ts',
    'return await work\n',
    "void work.catch(() => undefined)\n      return 'ack'\n",
  ),
  one(
    'refused-for-now-and-acknowledged',
    'bridges/hcp/inbound.ts',
    'passing.has(error.code)) {',
    "passing.has(error.code)) {\n        if (error) return 'ack'",
  ),
  one('confirm-taken-for-routed', 'bridges/hcp/outbound.ts', 'await unroutable(outgoing, parcel, as)', ''),
  one(
    'settled-before-it-is-sent',
    'workers/outbox.ts',
    'const done = await Promise.allSettled(',
    'await Promise.all(deliveries.map((delivery) => self.settle({ id: delivery.id, taken: delivery.due, ok: true })))\n  const done = await Promise.allSettled(',
  ),
  one(
    'submissions-are-not-deduplicated',
    'protocols/harness/session/commands.ts',
    'if (known !== null) return',
    "if (known?.id === '') return",
  ),
  one(
    'gaps-are-ignored',
    ANSWERS,
    'let isSkipping = skips || isFull(work.cursor)',
    'let isSkipping = skips || isFull(work.cursor) || work.cursor.held.length > 0',
  ),
  one(
    'an-event-outside-of-the-batch',
    'protocols/harness/session/session-work.ts',
    'work.puts.push(deliveryOf(work.session.id, number, outgoing, work.context.now))',
    "if (outgoing.envelope.payload['event_type'] !== 'progress') work.puts.push(deliveryOf(work.session.id, number, outgoing, work.context.now))",
  ),
  one(
    'repeated-under-another-id',
    'protocols/harness/operations/session.ts',
    'submitEnvelope(session.submit_id,',
    'submitEnvelope(crypto.randomUUID(),',
  ),
  one('messages-before-their-answer-are-put-aside', 'protocols/harness/session/early.ts', 'if (max === 0) return', 'if (max >= 0) return'),
  one(
    'messages-before-their-answer-are-forgotten',
    ANSWERS,
    'if (isNamed && user_id !== null) await',
    "if (isNamed && user_id === '') await",
  ),
  one('events-behind-the-outcome-are-late', ANSWERS, "? 'event' : 'wait'", "? 'event' : 'late'"),
  one(
    'late-events-are-thrown-away',
    ANSWERS,
    'const isLate = cursor.missing.includes(sequence)',
    'const isLate = cursor.missing.includes(-sequence)',
  ),
]
