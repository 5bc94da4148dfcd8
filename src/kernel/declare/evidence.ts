// Evidence for a question to a person, in every protocol that asks one: text, an artifact version or a link.
import { limits } from '../limits.ts'
import { t, type Static } from './schema.ts'

const text = (maxLength: number) => t.String({ maxLength })

export const Evidence = t.Union(
  [
    t.Object({ kind: t.Literal('text'), text: text(limits.textCharsMax) }),
    t.Object({ kind: t.Literal('artifact'), artifact_id: text(limits.idCharsMax), version: text(40) }),
    t.Object({ kind: t.Literal('link'), uri: text(limits.linkCharsMax), title: t.Optional(text(limits.labelCharsMax)) }),
  ],
  { description: 'the evidence for the question: text, an artifact version or a link' },
)
export type Evidence = Static<typeof Evidence>
