// The texts of each action in rows, headings and settings of the page. The components are in the same folder.
import type { IconName } from '../../parts/icon.tsx'
import type { Row } from '../../server/types.ts'

type Words = {
  readonly label: string
  readonly icon: IconName
  readonly asks: string
  /** Requests of this kind, in the settings. */
  readonly plural: string
  readonly answered: string
  /** Labels of results that have their own. */
  readonly results?: Readonly<Record<string, string>>
  readonly isVerdict?: true
}
export type Action = Row['action']
export const actionWords: Readonly<Record<Action, Words>> = {
  APPROVE: {
    label: 'Approval',
    icon: 'approve',
    asks: 'asks for your approval',
    plural: 'Approvals',
    answered: 'Answered',
    isVerdict: true,
  },
  DECIDE: { label: 'Choice', icon: 'decide', asks: 'asks for your decision', plural: 'Decisions', answered: 'Decided' },
  PROVIDE: { label: 'Input', icon: 'provide', asks: 'asks for your answer', plural: 'Answers', answered: 'Answered' },
  VERIFY: {
    label: 'Verification',
    icon: 'check',
    asks: 'asks you to verify a claim',
    plural: 'Verifications',
    answered: 'Answered',
    results: { confirmed: 'Confirmed', refuted: 'Refuted', cannot_tell: 'Cannot tell' },
  },
}
export const isVerdict = (action: Action): boolean => actionWords[action].isVerdict === true
