// A progress bar of a run or an upload, with its number for screen readers.
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
/** The progress in figures, if there is a number. */
export function Percent({ of }: { readonly of: number | null | undefined }) {
  return of === null || of === undefined ? null : <span className="mono muted">{of} %</span>
}
