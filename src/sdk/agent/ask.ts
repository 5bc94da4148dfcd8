// Questions to the people of the task. A question is a checkpoint: it waits for days, and a handler that is started anew finds it.
import type { Input, Output } from '../client.ts'
import { persistently } from './calls.ts'
import { Ended, Rejected, type Resolution } from './errors.ts'
import type { Job } from './job.ts'
import type { Steps } from './steps.ts'

type Raise = Input<'collaboration/checkpoint.raise'>
type Checkpoint = Output<'collaboration/checkpoint.get'>['checkpoint']

/** What a question may carry besides its words; see `collaboration/checkpoint.raise`. */
export type AskOptions = Omit<Raise, 'task_id' | 'kind' | 'prompt' | 'options' | 'run_id' | 'attempt'> & {
  /** Names the question where its place in the handler may change from one attempt to the next. */
  readonly key?: string
}
/** An option by its id, which is then also its label, at low risk; or the whole of it. */
export type Choice = string | NonNullable<Raise['options']>[number]

export type Ask = {
  /** Asks for a yes. Throws `Rejected` for a no. */
  approve(prompt: string, options?: AskOptions): Promise<Resolution>
  /** Asks for one of the options. */
  decide(prompt: string, choices: readonly Choice[], options?: AskOptions): Promise<Resolution & { readonly choice: string }>
  /** Asks for words. */
  provide(prompt: string, options?: AskOptions): Promise<Resolution & { readonly input: string }>
}

export function createAsk(job: Job, steps: Steps): Ask {
  const { client } = job
  let last: Promise<unknown> = Promise.resolve()

  /** A task has one question at a time; the next is put when the one before it is answered. */
  function inTurn<T>(ask: () => Promise<T>): Promise<T> {
    const turn = last.then(ask, ask)
    last = turn.catch(() => undefined)
    return turn
  }

  function ask(question: Omit<Raise, 'task_id' | 'run_id' | 'attempt'>, key: string | undefined): Promise<Resolution> {
    const task_id = job.item.run.task_id
    if (task_id === null) return Promise.reject(new TypeError('no task stands behind this run, so there is nobody to ask'))
    return inTurn(() =>
      job.aside(async () => {
        let raised: string | null = null
        const known = steps.once('ask', key, async (idempotencyKey) => {
          const raise = { task_id, run_id: job.id, ...question }
          const { checkpoint } = await job.effect(() =>
            client.collaboration.checkpoint.raise({ ...raise, attempt: job.attempt }, { idempotencyKey, signal: job.signal }),
          )
          // Before the first handler nobody can have asked: the answer comes as a message.
          if (job.isFirst) raised = job.waitsFor = checkpoint.id
          return checkpoint.id
        })
        try {
          return await answerTo(job, await known, raised !== null)
        } catch (error) {
          throw (await refusalOf(job, job.waitsFor)) ?? error
        } finally {
          job.waitsFor = null
        }
      }),
    )
  }

  const missing = (what: string, { action }: Resolution): Error => new Error(`the question was answered with ${action}, without ${what}`)
  return {
    approve: (prompt, { key, ...more } = {}) => ask({ ...more, kind: 'approval', prompt }, key),
    async decide(prompt, choices, { key, ...more } = {}) {
      const options = choices.map((one) => (typeof one === 'string' ? { id: one, label: one, risk: 'low' as const } : one))
      const resolution = await ask({ ...more, kind: 'choice', prompt, options }, key)
      if (resolution.choice === undefined) throw missing('a choice', resolution)
      return { ...resolution, choice: resolution.choice }
    },
    async provide(prompt, { key, ...more } = {}) {
      const resolution = await ask({ ...more, kind: 'input', prompt }, key)
      if (resolution.input === undefined) throw missing('any input', resolution)
      return { ...resolution, input: resolution.input }
    },
  }
}

async function answerTo(job: Job, checkpoint_id: string, isNew: boolean): Promise<Resolution> {
  let id = checkpoint_id
  for (let isFresh = isNew; ; isFresh = false) {
    job.waitsFor = id
    const news = job.news()
    job.signal.throwIfAborted()
    const resumed = job.resumes.get(id)
    if (resumed) return resumed
    if (!isFresh) {
      const checkpoint = await read(job, id)
      if (checkpoint.resolution?.action === 'reject') throw new Rejected(id, checkpoint.resolution)
      if (checkpoint.resolution) return checkpoint.resolution
      const successor = checkpoint.state === 'expired' ? await successorOf(job, checkpoint) : null
      if (successor !== null) {
        id = successor
        continue
      }
    }
    await news
  }
}

const read = async (job: Job, checkpoint_id: string): Promise<Checkpoint> =>
  (await persistently(job.signal, () => job.client.collaboration.checkpoint.get({ checkpoint_id }))).checkpoint

/** The same question, put to the next person when nobody answered in time. */
async function successorOf(job: Job, { id, task_id }: Checkpoint): Promise<string | null> {
  const { task } = await persistently(job.signal, () => job.client.collaboration.task.get({ task_id }))
  for (const later of task.checkpoints.slice(task.checkpoints.indexOf(id) + 1).toReversed())
    if ((await read(job, later)).succeeds === id) return later
  return null
}

/** A no ends the run, and is heard of as its end: what it was stands in the checkpoint. */
async function refusalOf({ client, signal }: Job, checkpoint_id: string | null): Promise<Rejected | null> {
  const isCancelled = signal.reason instanceof Ended && signal.reason.reason === 'cancelled'
  if (!isCancelled || checkpoint_id === null) return null
  try {
    const { checkpoint } = await client.collaboration.checkpoint.get({ checkpoint_id })
    return checkpoint.resolution?.action === 'reject' ? new Rejected(checkpoint_id, checkpoint.resolution) : null
  } catch {
    return null
  }
}
