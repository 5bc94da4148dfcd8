// Audit: which person answers for something, step by step.
import { Refusal } from '#kernel/declare/errors.ts'
import { role } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { namesBy } from '../record/audit-view.ts'
import { factFor, pathFrom } from '../record/why-path.ts'
import { mayRead, Step, stepOf } from '../record/why-steps.ts'
import { Id } from '../schema.ts'

/** Agents never learn which person of a pool or a vote has answered them. */
const reader = role<unknown>('a person or a service', ({ kind }) => kind !== 'agent')
const HIDDEN = 'the path ends where you may not read'

const why = query({
  name: 'audit.why',
  summary: 'Explain which person answers for something: from it, over causes, approvals, grants, rules and delegation, to the person.',
  draft: 'ours: HACP 0.1.0, Audit, read backwards',
  input: t.Object({
    id: t.String({
      minLength: 1,
      maxLength: limits.idCharsMax,
      description:
        'a task, run, request, receipt, review, grant, call, invocation, checkpoint, artifact version (id@version), event of a device, or fact',
    }),
  }),
  output: t.Object({
    id: t.String(),
    steps: t.Array(Step),
    person: nullable(Id),
    gaps: t.Array(t.String({ description: 'why no person is named' })),
  }),
  callers: [reader],
  load: () => Promise.resolve({}),
  async view(_, { id }, { actor, now }, read) {
    const start = await factFor(read, id, { actor, now })
    if (start === null || !(await mayRead(read, start, actor)))
      throw new Refusal('NOT_FOUND', `there is nothing called ${id} in the record`)
    const { path, person, gaps } = await pathFrom(read, start)
    const nameOf = namesBy(read)
    const steps: Step[] = []
    for (const found of path) steps.push(await stepOf(read, found, actor, nameOf))
    // The last step names the person, or says why there is none.
    return steps.at(-1)!.hidden ? { id, steps, person: null, gaps: [HIDDEN] } : { id, steps, person, gaps: [...gaps] }
  },
  example: { given: 'completed', as: 'alice', input: ({ task }) => ({ id: task.id }) },
})

export const auditWhyOperations = [why]
