// The kinds of questions by their action, each with the buttons and the form of its answer. A review is a kind of its own.
import type { ReactNode } from 'react'
import { ApproveKind } from './approve.tsx'
import { DecideKind } from './decide.tsx'
import type { KindProps } from './kind.ts'
import { ProvideKind } from './provide.tsx'
import { ReviewKind } from './review.tsx'
import { VerifyKind } from './verify.tsx'
import type { Action } from './words.ts'

const kinds: Readonly<Record<Action, (props: KindProps) => ReactNode>> = {
  APPROVE: ApproveKind,
  DECIDE: DecideKind,
  PROVIDE: ProvideKind,
  VERIFY: VerifyKind,
}

export function Kind(props: KindProps) {
  const { kind, action } = props.item
  const Found = kind === 'review' ? ReviewKind : kinds[action]
  return <Found {...props} />
}
