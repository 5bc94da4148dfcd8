// A bar that fills: how far a run or an upload is, with its number for those who do not see it.
type Props = { readonly label: string; readonly percent: number | null | undefined; readonly testId?: string }
export function Meter({ label, percent, testId }: Props) {
  if (percent === null || percent === undefined) return null
  return (
    <span
      className="meter"
      role="progressbar"
      aria-label={label}
      aria-valuenow={Math.round(percent)}
      aria-valuemin={0}
      aria-valuemax={100}
      data-testid={testId}
    >
      <i style={{ width: `${Math.min(100, percent)}%` }} />
    </span>
  )
}
/** The same in figures, where there is a number at all. */
export function Percent({ of }: { readonly of: number | null | undefined }) {
  return of === null || of === undefined ? null : <span className="mono muted">{of} %</span>
}
