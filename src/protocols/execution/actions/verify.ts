// VERIFY: a person checks a claim against its evidence and says whether it holds.
import { Evidence } from '#kernel/declare/evidence.ts'
import { limits } from '#kernel/limits.ts'
import { parse, t, type Static } from '#kernel/declare/schema.ts'
import { Context, oneOf, refuseUnreadable, text, type HumanAction } from './action.ts'

export const verdicts = ['confirmed', 'refuted', 'cannot_tell'] as const

const Payload = t.Object({
  claim: text(limits.questionCharsMax),
  evidence: t.Array(Evidence, { maxItems: limits.claimEvidenceMax }),
  context: Context,
})
export type VerifyPayload = Static<typeof Payload>
const Input = t.Object({ payload: t.Object({ ...Payload.properties, evidence: t.Optional(Payload.properties.evidence) }) })

/** A piece of evidence as text, for surfaces that show only text. */
const evidenceText = (evidence: Evidence): string => {
  if (evidence.kind === 'text') return evidence.text
  if (evidence.kind === 'artifact') return `artifact ${evidence.artifact_id}, version ${evidence.version}`
  return evidence.title === undefined ? evidence.uri : `${evidence.title}: ${evidence.uri}`
}

export const verify = {
  asks: 'verification',
  payload: Payload,
  input: Input,
  read(input) {
    const { evidence = [], ...payload } = parse(Input, input).payload
    refuseUnreadable(payload.claim, 'claim')
    for (const [place, item] of evidence.entries()) {
      if (item.kind === 'text') refuseUnreadable(item.text, `evidence.${place}.text`, () => undefined)
      if (item.kind === 'link') refuseUnreadable(item.uri, `evidence.${place}.uri`, () => undefined)
    }
    return { ...payload, evidence }
  },
  question: ({ claim }) => claim,
  options: () => verdicts,
  texts: ({ evidence }) => evidence.map(evidenceText),
  artifacts: ({ evidence }) => evidence.flatMap((item) => (item.kind === 'artifact' ? [item] : [])),
  result: (_, value) => oneOf(verdicts, value),
  effects: { approve: 'gets your verdict' },
  checkpoint: 'choice',
  yes: 'confirmed',
  votesFor: 'answer',
  counted: 'verified',
  asKnown({ claim, evidence, context }) {
    const lines = [...(context === undefined ? [] : [context]), ...evidence.map((item) => `Evidence: ${evidenceText(item)}`)]
    const question = { question: claim, options: [...verdicts], ...(lines.length === 0 ? {} : { context: lines.join('\n') }) }
    return { action: 'DECIDE', payload: question }
  },
} as const satisfies HumanAction<VerifyPayload>
