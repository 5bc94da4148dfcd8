// Notes of a run: steps that a handler has finished, so that a restarted handler does not repeat them.
import { canonical } from '#kernel/log/canonical-json.ts'
import { Errand, errandDone } from '#kernel/log/errand.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { put } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { forgetErrand, forgetErrandId } from '../runs/mailbox.ts'
import { Attempt, isNotEnded, isPresentAttempt, runAgent, runOf, type OfRun } from '../access.ts'
import { Id, Mailbox, Memo, memoId, Run } from '../schema.ts'
import { isActive } from '../states.ts'

const Key = t.String({ minLength: 1, maxLength: 200 })

const save = command({
  name: 'memo.put',
  summary: 'Keep a small value for a run under a key. The first value stays: later calls return it.',
  draft: 'ours: a restarted handler continues where it was',
  input: t.Object({ run_id: Id, attempt: Attempt, key: Key, value: t.Unknown() }),
  output: t.Object({ value: t.Unknown(), first: t.Boolean() }),
  callers: [runAgent],
  requires: [isNotEnded, isPresentAttempt],
  audit: null,
  async load(read, { run_id, key }, { actor }) {
    return { ...(await runOf(read, run_id, actor)), found: await read.raw(Memo, memoId(run_id, key)) }
  },
  decide({ run, found }, { key, value }, { now }) {
    if (found) return { facts: [], output: { value: found.value, first: false } }
    if (Buffer.byteLength(canonical(value ?? null)) > limits.memoBytesMax)
      throw new Refusal('INVALID_REQUEST', `value is at most ${limits.memoBytesMax} bytes`, { field: 'value' })
    const id = memoId(run.id, key)
    const max = limits.memosPerRunMax
    return {
      facts: [],
      puts: [put(Memo, id, { id, run_id: run.id, project_id: run.project_id, key, value: value ?? null, at: now })],
      atMost: [{ doc: Memo, index: 'run', prefix: [run.id], max, message: `a run keeps at most ${max} values` }],
      output: { value: value ?? null, first: true },
    }
  },
  example: { given: 'delegated', as: 'robin', input: ({ run }) => ({ run_id: run.id, key: 'clone', value: { commit: 'a1b2c3' } }) },
})

const get = query({
  name: 'memo.get',
  summary: 'Fetch the value that is kept for a run under a key; found is false if there is none.',
  draft: 'ours: a restarted handler continues where it was',
  input: t.Object({ run_id: Id, key: Key }),
  output: t.Object({ value: t.Unknown(), found: t.Boolean(), at: nullable(t.String()) }),
  callers: [runAgent],
  async load(read, { run_id, key }, { actor }) {
    return { ...(await runOf(read, run_id, actor)), memo: await read.raw(Memo, memoId(run_id, key)) }
  },
  view: ({ memo }) => ({ value: memo?.value ?? null, found: memo !== null, at: memo?.at ?? null }),
  example: { given: 'delegated', as: 'robin', input: ({ run }) => ({ run_id: run.id, key: 'clone' }) },
})

/** Notes deleted per batch. */
const PORTION = 200

const forget = command({
  name: 'run.forget',
  summary: 'Forget the notes of a run whose task has ended too, and the messages that were never taken. The system calls it by timer.',
  draft: 'ours: kept data takes a bounded space',
  input: t.Object({ run_id: Id }),
  output: t.Object({ forgotten: t.Integer(), more: t.Boolean() }),
  callers: [system],
  requires: [
    rule<{ run: OfRun['run'] }>(
      'PRECONDITION_FAILED',
      'the run has ended',
      ({ run }) => !isActive(run.state),
      'the run has not ended yet: its notes are forgotten when it has',
    ),
  ],
  audit: null,
  async load(read, { run_id }) {
    const run = await read.maybe(Run, run_id)
    if (!run) throw new Refusal('RUN_NOT_FOUND', `there is no run ${run_id}`)
    const listed = await read.list(Memo, 'run', [[run_id]], { limit: PORTION })
    const storedErrand = await read.raw(Errand, forgetErrandId(run_id))
    const task = run.task_id === null ? null : await read.ports.tasks.task(read, run.task_id)
    // The next run of the task continues from them.
    const isKept = task !== null && task.outcome === null
    return { run, storedErrand, mailbox: await read.raw(Mailbox, run_id), ids: isKept ? [] : listed.map(({ id }) => id), isKept }
  },
  decide({ run, storedErrand, mailbox, ids, isKept }, _, { now }) {
    const more = ids.length === PORTION
    const again = isKept ? timestampOf(Date.parse(now) + limits.memoMs) : more ? now : null
    const next = again !== null ? [forgetErrand(run.id, again)] : storedErrand ? [errandDone(storedErrand.id)] : []
    const rest = [...(mailbox ? [put(Mailbox, run.id, null)] : []), ...next]
    return { facts: [], puts: [...ids.map((id) => put(Memo, id, null)), ...rest], output: { forgotten: ids.length, more } }
  },
  example: { given: 'ended', as: 'system', input: ({ run }) => ({ run_id: run.id }) },
})

export const memoOperations = [save, get, forget]
