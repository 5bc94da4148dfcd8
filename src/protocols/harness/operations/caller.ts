// Harnesses that can submit here, each up to a risk and a class of data (HCP 1.0, L3: Permission Audit).
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { administrator, installationOwner, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf, readListed } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { Caller, DataClass, HarnessId, Risk } from '../schema.ts'

const allow = command({
  name: 'harness.allow',
  summary: 'Let another harness submit tasks here, for some capabilities (or *), up to a risk and a class of data.',
  draft: 'HCP 1.0, L3: Permission Audit',
  input: t.Object({
    caller_id: HarnessId,
    capabilities: t.Optional({ ...Caller.schema.properties.capabilities, maxItems: limits.harnessRulesMax }),
    risk_max: t.Optional(Risk),
    data_max: t.Optional(DataClass),
  }),
  output: t.Object({ caller: Caller.schema }),
  callers: [system, administrator, installationOwner],
  requires: [],
  audit: 'caller.allowed',
  load: async (read, { caller_id }) => ({ before: await read.raw(Caller, caller_id) }),
  decide(_, { caller_id, capabilities = ['*'], risk_max = 'R3', data_max = 'T2' }, { now }) {
    const caller: Caller = {
      id: caller_id,
      caller_id,
      capabilities: [...new Set(capabilities)],
      risk_max,
      data_max,
      allowed_at: now,
      disallowed: false,
    }
    return { facts: [fact('caller.allowed', [image(Caller, caller)])], output: { caller } }
  },
  example: { given: 'empty', as: 'admin', input: { caller_id: 'lab-alpha', capabilities: ['*'], risk_max: 'R4', data_max: 'T2' } },
})

const disallow = command({
  name: 'harness.disallow',
  summary: 'Take no more tasks of another harness. Open sessions continue.',
  draft: 'HCP 1.0, L3: Permission Audit',
  input: t.Object({ caller_id: HarnessId }),
  output: t.Object({ caller: Caller.schema }),
  callers: [system, administrator, installationOwner],
  requires: [],
  audit: 'caller.disallowed',
  async load(read, { caller_id }) {
    const caller = await read.raw(Caller, caller_id)
    if (caller === null || caller.disallowed) throw new Refusal('NOT_FOUND', `${caller_id} is not allowed to submit here`)
    return { caller }
  },
  decide({ caller }) {
    const next: Caller = { ...caller, disallowed: true }
    return { facts: [fact('caller.disallowed', [image(Caller, next)])], output: { caller: next } }
  },
  example: { given: 'declared', as: 'admin', input: { caller_id: 'lab-alpha' } },
})

const callers = query({
  name: 'harness.callers',
  summary: 'List the harnesses that may submit tasks here.',
  draft: 'HCP 1.0, L3: Permission Audit',
  input: t.Object({ ...pageInput }),
  output: t.Object({ items: t.Array(Caller.schema), next_cursor: nextCursor }),
  callers: [system, administrator, installationOwner],
  async load(read, input) {
    return readListed(read, Caller, await read.list(Caller, 'all', [[]], pageIn('harness.callers', input)))
  },
  view: ({ listed, items, isCut }, input) => pageOf('harness.callers', input, listed, items, isCut),
  example: { given: 'declared', as: 'admin', input: {} },
})

export const callerOperations = [allow, disallow, callers]
