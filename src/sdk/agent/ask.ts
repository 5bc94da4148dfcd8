// Questions to the people of the task. A question can wait for days, and a restarted handler finds it again. It is an HXP request that
// names its task, and so a checkpoint of the task. Options that only a checkpoint can carry make it a plain checkpoint.
import { definedFields } from '#kernel/codec/strict-json.ts'
import { persistently } from '../transport/retry.ts'
import type { Input, Output } from '../client.ts'
import type { Answered, QuestionOptions } from '../hxp.ts'
import { methodsBy, questions, requestOf, type Choice, type Methods, type QuestionName } from '../questions.ts'
import type { Answer, WaitOptions } from '../await-answer.ts'
import { Ended, Rejected, type Resolution } from './errors.ts'
import type { RunState } from './run-state.ts'
import type { Steps } from './steps.ts'

type Raise = Input<'collaboration/checkpoint.raise'>
type Checkpoint = Output<'collaboration/checkpoint.get'>['checkpoint']

/** Options that only a checkpoint has; see `collaboration/checkpoint.raise`. */
type OfCheckpoint = Omit<Raise, 'task_id' | 'kind' | 'prompt' | 'options' | 'context' | 'run_id' | 'attempt'>
/** Options of a question: the options of `client.hxp`, and further ones of checkpoints. */
export type AskOptions = Omit<QuestionOptions, 'context'> &
  OfCheckpoint & {
    /** Why: words, at most 500 characters; or evidence, which makes it a checkpoint. */
    readonly context?: string | Raise['context']
  }
/** The answer, and how the task's checkpoint was resolved by it. */
export type Asked<T> = Answered<T> & { readonly resolution: Resolution }

/** The questions of `client.hxp`, to the people of the task; `decide` also takes options with an id and a risk. */
export type Ask = Methods<AskOptions, Asked<unknown>> & {
  decide(question: string, choices: readonly Choice[], options?: AskOptions): Promise<Asked<string>>
}

type Proof = Pick<WaitOptions, 'verify' | 'keys' | 'unseal'>
type Question = {
  readonly name: QuestionName
  readonly prompt: string
  readonly choices: readonly Choice[]
  readonly more: Omit<AskOptions, 'key' | keyof Proof>
}
type Kind = (typeof questions)[QuestionName]['kind']
/** The memo of an asked question; for a plain checkpoint it is only the id. */
type Put = string | { readonly request_id: string; readonly checkpoint_id: string | null }

export function createAsk(job: RunState, steps: Steps): Ask {
  const { client } = job
  let last: Promise<unknown> = Promise.resolve()

  /** A task has one question at a time; the next is asked when the former one is answered. */
  function inTurn<T>(ask: () => Promise<T>): Promise<T> {
    const turn = last.then(ask, ask)
    last = turn.catch(() => undefined)
    return turn
  }

  async function put(question: Question, task_id: string, idempotencyKey: string): Promise<Put> {
    const options = { idempotencyKey, signal: job.signal }
    const by = { run_id: job.id }
    if (!isPlain(question)) {
      const raise = { task_id, ...by, ...checkpointOf(question) }
      return (await job.effect(() => client.collaboration.checkpoint.raise({ ...raise, attempt: job.attempt }, options))).checkpoint.id
    }
    const { name, prompt, choices, more } = question
    const create = { ...by, ...requestOf(name, prompt, choices, more), metadata: { task_id } }
    const { request } = await job.effect(() => client.execution.request.create({ ...create, attempt: job.attempt }, options))
    return { request_id: request.id, checkpoint_id: request.checkpoint_id ?? null }
  }

  function ask(name: QuestionName, prompt: string, choices: readonly Choice[], options: AskOptions): Promise<Asked<unknown>> {
    const { key, verify, keys, unseal, ...more } = options
    const proof = definedFields({ verify, keys, unseal }) as Proof
    const question: Question = { name, prompt, choices, more }
    const task_id = job.item.run.task_id
    if (task_id === null) return Promise.reject(new TypeError('this run has no task, so there is nobody to ask'))
    return inTurn(() =>
      job.aside(async () => {
        // A question of the system can supersede this one. It was not answered then, so ask again when the run continues.
        for (let again = 0; ; again++) {
          const answer = await askOnce(question, task_id, again === 0 ? 'ask' : `ask-again-${again}`, key, proof)
          if (answer !== null) return answer
        }
      }),
    )
  }

  /** null: a system question, whether the run should continue at all, superseded this one without an answer. */
  async function askOnce(
    question: Question,
    task_id: string,
    step: string,
    key: string | undefined,
    proof: Proof,
  ): Promise<Asked<unknown> | null> {
    let raised: string | null = null
    const known = steps.once(step, key, async (idempotencyKey) => {
      const raisedAs = await put(question, task_id, idempotencyKey)
      // Before the first handler nothing can have been asked: the answer arrives as a message.
      if (job.isFirst) raised = job.waitsFor = typeof raisedAs === 'string' ? raisedAs : raisedAs.checkpoint_id
      return raisedAs
    })
    try {
      return await answerOf(job, questions[question.name].kind, await known, raised !== null, proof)
    } catch (error) {
      throw (await refusalOf(job, job.waitsFor)) ?? error
    } finally {
      job.waitsFor = null
    }
  }

  return methodsBy<AskOptions, Asked<unknown>>(ask)
}

// --- Two forms of a question -------------------------------------------------------------------------------------------------

const PROMPT_CHARS_MAX = 300
const CHOICE_CHARS_MAX = 80
const ofRequest = new Set<string>([
  'context',
  ...Object.values(questions).flatMap(({ fields }) => fields),
  'priority',
  'timeout_seconds',
  'fallback',
  'risk',
  'tags',
  'remind_seconds',
  'escalate',
  'callback',
])

/** Whether HXP can express the question: two to six short text options, and no fields that only checkpoints have. */
function isPlain({ name, prompt, choices, more }: Question): boolean {
  const isShort = Array.from(prompt).length <= PROMPT_CHARS_MAX
  const areWords = choices.every((choice) => typeof choice === 'string' && choice !== '' && Array.from(choice).length <= CHOICE_CHARS_MAX)
  const isChoice = name !== 'decide' || (choices.length >= 2 && choices.length <= 6 && areWords && new Set(choices).size === choices.length)
  const isKnown = Object.entries(more).every(([option, value]) => value === undefined || ofRequest.has(option))
  return isShort && isChoice && isKnown && !Array.isArray(more.context)
}

function checkpointOf({ name, prompt, choices, more }: Question): Omit<Raise, 'task_id'> {
  const { kind, choices: verdicts = choices } = questions[name]
  const foreign = Object.keys(more).find((option) => option !== 'context' && ofRequest.has(option))
  if (foreign !== undefined)
    throw new TypeError(
      `${foreign} does not go with evidence, proposed actions, state, expiry, long words or options that have an id and a risk`,
    )
  const { context, ...rest } = more as OfCheckpoint & { context?: string | Raise['context'] }
  const evidence = typeof context === 'string' ? [{ kind: 'text' as const, text: context }] : context
  const options = verdicts.map((verdict) => (typeof verdict === 'string' ? { id: verdict, label: verdict, risk: 'low' as const } : verdict))
  return { ...rest, kind, prompt, ...(evidence === undefined ? {} : { context: evidence }), ...(kind === 'choice' ? { options } : {}) }
}

// --- The answer --------------------------------------------------------------------------------------------------------------

async function answerOf(job: RunState, kind: Kind, put: Put, isNew: boolean, proof: Proof): Promise<Asked<unknown> | null> {
  if (typeof put === 'string') {
    const resolution = await answerTo(job, put, isNew, proof)
    return resolution && ofCheckpoint(put, resolution, kind)
  }
  const { request_id, checkpoint_id } = put
  const resolution = checkpoint_id === null ? null : await answerTo(job, checkpoint_id, isNew, proof)
  if (checkpoint_id !== null && resolution === null) return null
  const answer = await job.client.hxp.outcome(request_id, { ...proof, signal: job.signal })
  const checkpointAnswer = resolution ?? resolutionOf(answer)
  // In HXP a rejection is an answer, and the task continues.
  if (kind === 'approval' && answer.result !== 'approved')
    throw new Rejected(checkpoint_id ?? request_id, checkpointAnswer, false, answer as Answer<'rejected'>)
  return { ...answer, resolution: checkpointAnswer }
}

function ofCheckpoint(checkpoint_id: string, resolution: Resolution, kind: Kind): Asked<unknown> {
  const { action, choice, input, comment = null, approved_actions = [], denied_actions = [] } = resolution
  // None of the proposed actions was approved: a rejection, after which the task continues.
  if (kind === 'approval' && denied_actions.length > 0 && approved_actions.length === 0)
    throw new Rejected(checkpoint_id, resolution, false)
  const results = { approval: action === 'approve' ? 'approved' : undefined, choice, input }
  const result = results[kind]
  if (result === undefined) throw new Error(`the question was answered with ${action}, without ${labels[kind]}`)
  return { result, reason: comment, edited: null, receipt: null, request: null, verified: false, resolution }
}
const labels = { approval: 'a yes', choice: 'a choice', input: 'any input' }

/** The resolution of a question that a grant answered, without a person or a checkpoint. */
const resolutionOf = ({ result, reason, receipt }: Answer): Resolution => ({
  by: receipt.completed_by,
  action: result === 'approved' ? 'approve' : 'reject',
  ...(reason === null ? {} : { comment: reason }),
  at: receipt.completed_at,
})

/** null: it was superseded. */
async function answerTo(job: RunState, checkpoint_id: string, isNew: boolean, proof: Proof): Promise<Resolution | null> {
  let id = checkpoint_id
  /** The item that every recipient has declined: the run continues without an answer to it. */
  let declined: string | null = null
  for (let isFresh = isNew; ; isFresh = false) {
    job.waitsFor = id
    const news = job.news()
    job.signal.throwIfAborted()
    const resumed = job.resumes.get(id)
    if (resumed && declined === null) return resumed
    if (!isFresh) {
      const checkpoint = await read(job, id)
      if (checkpoint.resolution?.action === 'reject') throw new Rejected(id, checkpoint.resolution)
      // This throws, because the item's receipt says that it was declined.
      if (checkpoint.resolution && declined !== null) await job.client.hxp.outcome(declined, { ...proof, signal: job.signal })
      if (checkpoint.resolution) return checkpoint.resolution
      if (checkpoint.reason === 'superseded') return null
      const successor = checkpoint.state === 'expired' ? await successorOf(job, checkpoint) : null
      // The system asks how to continue the task: an answer to that does not answer the earlier question.
      if (successor?.raised_by === 'agent_system' && successor.escalates === undefined) {
        if (checkpoint.reason !== 'declined') return null
        declined = itemOf(id)
      }
      if (successor !== null) {
        id = successor.id
        continue
      }
    }
    await news
  }
}

const itemOf = (checkpoint_id: string): string => `hxp_${checkpoint_id.slice('ckpt_'.length)}`

const read = async (job: RunState, checkpoint_id: string): Promise<Checkpoint> =>
  (await persistently(job.signal, () => job.client.collaboration.checkpoint.get({ checkpoint_id }))).checkpoint

/** The checkpoint that asks the next person the same question after a timeout. */
async function successorOf(job: RunState, { id, task_id }: Checkpoint): Promise<Checkpoint | null> {
  const { task } = await persistently(job.signal, () => job.client.collaboration.task.get({ task_id }))
  for (const later of task.checkpoints.slice(task.checkpoints.indexOf(id) + 1).toReversed()) {
    const checkpoint = await read(job, later)
    if (checkpoint.succeeds === id) return checkpoint
  }
  return null
}

/** A rejection cancels the run, so the handler only sees a cancelled run; the checkpoint has the reason. */
async function refusalOf({ client, signal }: RunState, checkpoint_id: string | null): Promise<Rejected | null> {
  const isCancelled = signal.reason instanceof Ended && signal.reason.reason === 'cancelled'
  if (!isCancelled || checkpoint_id === null) return null
  try {
    const { checkpoint } = await client.collaboration.checkpoint.get({ checkpoint_id })
    return checkpoint.resolution?.action === 'reject' ? new Rejected(checkpoint_id, checkpoint.resolution) : null
  } catch {
    return null
  }
}
