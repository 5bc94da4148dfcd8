// Answers for /metrics: items that ended, and how long people took. A server counts what it committed itself, so the sum over all servers is right.
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import type { Sealed, Store } from '#kernel/log/store.ts'
import { actionOf } from '#protocols/execution/actions/index.ts'
import { outcomeOf, Request } from '#protocols/execution/schema.ts'
import { counter, createHistogram } from './metric-lines.ts'

/** From seconds to a week: people answer, not machines. */
const DECISION_SECONDS = [5, 15, 60, 300, 900, 3_600, 14_400, 86_400, 604_800]
const ENDS = /^execution\/request\.(completed|declined|failed|cancelled)$/

export type AnswerFigures = {
  /** Wraps a store and counts the answers in its commits. */
  countIn(store: Store): Store
  lines(): string[]
}

export function createAnswerFigures(): AnswerFigures {
  const answers = new Map<string, number>()
  const decisions = createHistogram(DECISION_SECONDS)

  function count({ receipt, ...request }: Request): void {
    if (receipt === undefined) return
    const result = resultOf({ ...request, receipt })
    answers.set(result, (answers.get(result) ?? 0) + 1)
    if (receipt.basis.kind === 'role' && receipt.by !== SYSTEM_ID) decisions.observe(receipt.duration_seconds)
  }
  function countAll(facts: readonly Sealed[]): void {
    for (const { fact } of facts)
      if (ENDS.test(fact.action)) for (const { key, value } of fact.images) if (key.startsWith(keyOf(Request, ''))) count(value as Request)
  }

  return {
    countIn: (store) => ({
      ...store,
      async commit(batch) {
        const facts = await store.commit(batch)
        countAll(facts)
        return facts
      },
    }),
    lines: () => [
      ...counter('countersign_answers_total', 'Items that ended, by result.', 'result', answers),
      ...decisions.lines('countersign_decision_seconds', 'Time from a question to the answer of a person.'),
    ],
  }
}

function resultOf(request: Request): string {
  const outcome = outcomeOf(request)
  if (outcome !== 'completed') return outcome
  const { counted } = actionOf(request)
  if (counted !== undefined) return counted
  const result = request.receipt!.result
  return typeof result === 'string' && /^(approved|rejected|changes_requested)$/.test(result) ? result : 'answered'
}
