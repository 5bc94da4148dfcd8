// An answer counts only for the question, the options and the arguments that were shown when it was given, whoever else asks meanwhile.
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'

const CHECKPOINT = 'collaboration.checkpoint/'
const REQUEST = 'execution.request/'
const REVIEW = 'collaboration.review/'
const TASK = 'collaboration.task/'
const SYSTEM = 'agent_system'

const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)
/** The question: all that a person decides by. */
const questionIn = ({ prompt, options, proposed_actions, context, state_shown, state_schema, request_id }: any): object => ({
  prompt,
  options,
  proposed_actions,
  context,
  state_shown,
  state_schema,
  request_id,
})
const isOfSystem = ({ raised_by, escalates }: any): boolean => raised_by === SYSTEM && escalates === undefined

const fitting: Readonly<Record<string, readonly string[]>> = {
  approval: ['approve', 'reject', 'reassign'],
  choice: ['choose', 'reject', 'reassign'],
  input: ['provide', 'reject', 'reassign'],
  escalation: ['approve', 'reject', 'choose', 'provide', 'reassign'],
  interrupt: ['approve', 'reject', 'provide', 'reassign'],
}

/** A yes that approves none of the actions that were proposed. */
export const isAllDenied = ({ approved_actions = [], denied_actions = [] }: any): boolean =>
  denied_actions.length > 0 && approved_actions.length === 0

/** The card that the person who answers has before them, by the documents of that moment; null: the call is no answer, or to nothing. */
export function shownTo(op: string, input: any, docOf: (key: string) => any): string | null {
  if (op === 'collaboration/checkpoint.resolve') {
    const checkpoint = docOf(CHECKPOINT + input.checkpoint_id)
    return checkpoint && JSON.stringify([checkpoint.id, questionIn(checkpoint)])
  }
  if (op !== 'execution/request.resolve') return null
  const request = docOf(REQUEST + input.request_id)
  return request && JSON.stringify([request.id, request.action, request.payload, request.artifact])
}

export type QuestionLaws = { judge(fact: SeenFact): void; judgeGroup(): void }

export function createQuestionLaws(record: FactRecord, fail: Fail): QuestionLaws {
  const docOf = (key: string): any => record.docs.get(key)?.value ?? null
  let answered = new Set<string>()

  /** A verdict is about the version that was delivered, and never about another one. */
  function judgeVerdict(images: SeenFact['images']): void {
    const review = images.find(({ key }) => key.startsWith(REVIEW))!.after
    const delivered = images.find(({ key }) => key.startsWith(TASK))!.before?.delivered
    if (delivered?.artifact_id !== review.artifact_id || delivered?.version !== review.artifact_version)
      fail(`${review.id} is about ${review.artifact_id} ${review.artifact_version}, but ${JSON.stringify(delivered)} was delivered`)
  }

  function judge({ line, images }: SeenFact): void {
    if (line.action === 'collaboration/review.submitted') judgeVerdict(images)
    for (const { key, before, after } of images) {
      const wrong = (message: string): void => fail(`${line.action} on ${after.id}: ${message}`)
      if (key.startsWith(REQUEST) && after.receipt !== undefined && before?.receipt === undefined) answered.add(key)
      if (!key.startsWith(CHECKPOINT)) continue
      if (before === null) judgeRaised(after, wrong)
      else if (!same(questionIn(before), questionIn(after))) wrong('the question changes')
      if (after.state === 'resolved') judgeAnswer(after, wrong)
    }
  }

  function judgeRaised(asked: any, wrong: Fail): void {
    const earlier = asked.succeeds === null ? null : docOf(CHECKPOINT + asked.succeeds)
    if (asked.succeeds !== null && (earlier?.state !== 'expired' || earlier.resolution !== null))
      wrong(`the question before it is ${earlier?.state}`)
    // A question that everybody has declined ends, and the system asks about the task.
    const isEnded = earlier?.reason === 'superseded' || (earlier?.reason === 'declined' && isOfSystem(asked) && !isOfSystem(earlier))
    if (isOfSystem(asked)) {
      const { options, proposed_actions, context, state_shown, request_id, supersedes } = asked
      if (!same([options, proposed_actions, context, state_shown, request_id], [[], [], [], null, undefined]))
        wrong('the system asks for what an agent had asked for')
      const isQuoted = earlier === null || same(supersedes, { checkpoint_id: earlier.id, prompt: earlier.prompt })
      if (isEnded && !isQuoted) wrong('it does not quote the question that it ended')
    }
    if (earlier !== null && !isEnded && !same(questionIn(asked), questionIn(earlier))) wrong('the next person is asked something else')
    if (asked.declined?.some(({ by }: any) => by === asked.routed_to)) wrong('a person who declined it is asked again')
    if (asked.request_id !== undefined) judgeRequest(asked, wrong)
  }

  /** The checkpoint and the request behind it ask the same in the same words. */
  function judgeRequest({ request_id, prompt, options }: any, wrong: Fail): void {
    const { payload } = docOf(REQUEST + request_id)
    if (prompt !== (payload.item ?? payload.question ?? payload.prompt)) wrong('the request behind it asks something else')
    const labels = options.map(({ label }: any) => label)
    if (!same(labels, payload.options ?? [])) wrong('the request behind it has other options')
  }

  function judgeAnswer(asked: any, wrong: Fail): void {
    const { action, choice, approved_actions = [], denied_actions = [] } = asked.resolution
    const { kind, escalates = kind, options, proposed_actions, request_id } = asked
    // A request has answers that its checkpoint has not: that it was rejected, or that nobody answered it.
    const isSaid = request_id !== undefined && action === 'provide'
    const allowed = isOfSystem(asked) ? ['approve', 'reject', 'reassign'] : fitting[escalates]!
    if (!allowed.includes(action) && !isSaid) wrong(`${action} is no answer to it`)
    if (action === 'choose' && !options.some(({ id }: any) => id === choice)) wrong(`${choice} was not to be chosen`)
    const sorted = (ids: string[]): string[] => ids.toSorted((one, other) => (one < other ? -1 : 1))
    const proposed = proposed_actions.map(({ id }: any) => id as string)
    if (!same(sorted([...approved_actions, ...denied_actions]), sorted(proposed))) wrong('other actions were decided than those proposed')
  }

  /** An answer at a checkpoint, by its receipt, was given at the checkpoint that asked it. */
  function judgeGroup(): void {
    const keys = answered
    answered = new Set()
    for (const key of keys) {
      const { id, kind, checkpoint_id, receipt, action } = docOf(key)
      const checkpoint = checkpoint_id === undefined ? null : docOf(CHECKPOINT + checkpoint_id)
      if (checkpoint === null || kind === 'review' || receipt.status !== 'completed') continue
      const said = checkpoint.resolution
      if (checkpoint.state !== 'resolved') fail(`${key} is answered, and its question is ${checkpoint.state}`)
      else if (kind === 'request' && checkpoint.request_id !== id) fail(`${key} is answered by the answer to another question`)
      else if (action === 'APPROVE' && (receipt.result === 'approved') !== (said.action === 'approve' && !isAllDenied(said)))
        fail(`${key} is ${receipt.result}, and its checkpoint was answered with ${said.action}`)
    }
  }

  return { judge, judgeGroup }
}
