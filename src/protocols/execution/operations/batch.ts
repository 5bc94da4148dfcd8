// Many answers in one call: each is its own decision, with its own receipt, about exactly what was shown.
import { fan } from '#kernel/call/fan-out.ts'
import { human } from '#kernel/declare/access.ts'
import { isUnknown } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { AssertionField } from '#kernel/signing/input.ts'
import { SignedReceipt } from '../answering/receipt.ts'
import { Id } from '../schema.ts'
import { Reason } from './resolve.ts'

const BatchAnswer = t.Object({
  request_id: Id,
  digest: t.String({ maxLength: 100, description: 'answer only if the item still has this digest' }),
  result: t.Unknown({ description: 'an option, approved or rejected, or the value that was asked for' }),
  reason: Reason,
  ...AssertionField,
})
const Result = t.Object({
  request_id: Id,
  ok: t.Boolean(),
  code: t.Optional(t.String()),
  message: t.Optional(t.String()),
  outcome: t.Optional(t.Literal('unknown', { description: 'it may have been carried out: repeat the call with the same key' })),
  receipt: t.Optional(SignedReceipt),
})

const resolve = fan({
  name: 'inbox.resolve',
  summary: 'Answer several items, each as it was shown to you. Items that have changed or are decided already are left alone and named.',
  draft: 'ours: the inbox',
  input: t.Object({ answers: t.Array(BatchAnswer, { minItems: 1, maxItems: limits.answersMax }) }),
  output: t.Object({ results: t.Array(Result) }),
  callers: [human],
  each: ({ answers }) => answers.map((input) => ({ call: 'execution/request.resolve', input })),
  gather: ({ answers }, came) => ({
    results: came.map((result, i) => {
      const { request_id } = answers[i]!
      if ('refusal' in result) {
        const { code, message } = result.refusal
        return { request_id, ok: false, code, message, ...(isUnknown(result.refusal) ? { outcome: 'unknown' as const } : {}) }
      }
      const { receipt } = result.output as { receipt?: Static<typeof SignedReceipt> }
      return { request_id, ok: true, ...(receipt ? { receipt } : {}) }
    }),
  }),
  example: {
    given: 'looked',
    as: 'alice',
    input: ({ item }) => ({ answers: [{ request_id: item.request_id, digest: item.digest, result: 'Approve' }] }),
  },
})

export const batchOperations = [resolve]
