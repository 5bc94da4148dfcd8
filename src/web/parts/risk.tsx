// The risk of an item: always with its label, and with five bars in addition to the colour.
import type { Risk } from '../server/types.ts'

const labels: Readonly<Record<Risk, string>> = { R1: 'minor', R2: 'low', R3: 'moderate', R4: 'high', R5: 'severe' }
export const riskLabel = (risk: Risk): string => `${risk} ${labels[risk]}`
/** For example "Severe risk (R5)". */
export const riskSentence = (risk: Risk | null): string =>
  risk === null ? 'Not rated' : `${labels[risk].charAt(0).toUpperCase()}${labels[risk].slice(1)} risk (${risk})`
/** Decided one at a time, never in a batch. */
export const isWeighty = (risk: Risk | null): boolean => risk !== null && risk >= 'R3'

export function RiskBadge({ risk, short = false, testId }: { readonly risk: Risk; readonly short?: boolean; readonly testId?: string }) {
  const level = Number(risk[1])
  return (
    <span className={`risk ${risk}`} data-testid={testId}>
      <span className="bars" aria-hidden="true">
        {[1, 2, 3, 4, 5].map((n) => (
          <i key={n} className={n <= level ? 'on' : ''} />
        ))}
      </span>
      {short ? risk : riskLabel(risk)}
      {short && <span className="sr"> {labels[risk]} risk</span>}
    </span>
  )
}
