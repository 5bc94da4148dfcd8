// Receipts in the hands of others: whether one is ours.
import { anyone } from '#kernel/declare/access.ts'
import { claimsOf, doubt, judge, jwsOf, receiptIn, type Verdict } from '../answering/receipt-format.ts'
import { query, type Context } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'

const NO_RECEIPT = doubt('not_a_receipt', 'it is not an object, or has too many fields')

async function verdictOn(given: unknown, { notary }: Context): Promise<Verdict> {
  const receipt = receiptIn(given)
  if (receipt === null) return NO_RECEIPT
  const jws = jwsOf(receipt['signature'])
  if (!jws.ok) return jws
  const isGood = (await notary.verify(receipt['signature'] as string)) !== null
  if (!isGood) return doubt('bad_signature', 'none of the keys of this server has signed it')
  const claims = claimsOf(jws)
  return claims === null ? NO_RECEIPT : judge(receipt, claims, jws.kid, {})
}

const verify = query({
  name: 'receipt.verify',
  summary: 'Check a receipt: whether this server has signed it, and whether it is still as it was signed.',
  draft: 'HXP 0.1, 4.2: "verify receipts were issued by a trusted HXP server"',
  input: t.Object({ receipt: t.Object({}, { additionalProperties: true, description: 'the whole object, as it was handed out' }) }),
  output: t.Object({
    valid: t.Boolean(),
    reason: t.Optional(t.String()),
    message: t.Optional(t.String()),
    claims: t.Optional(t.Object({}, { additionalProperties: true })),
  }),
  callers: [anyone],
  load: async (_, { receipt }, context) => ({ verdict: await verdictOn(receipt, context) }),
  view: ({ verdict }) =>
    verdict.ok ? { valid: true, claims: { ...verdict.claims } } : { valid: false, reason: verdict.reason, message: verdict.words },
  example: { given: 'answered', as: 'devin', input: ({ receipt }) => ({ receipt }) },
})

export const receiptOperations = [verify]
