// Small plots, drawn as SVG shapes. Each is next to a table with its numbers, so no information is only in a drawing.
import type { ReactNode } from 'react'

export type Series = { readonly name: string; readonly tone: 'ok' | 'bad' | 'warn' | 'accent'; readonly values: readonly number[] }

const [WIDTH, HEIGHT] = [520, 96]

/** A plot with its values, its maximum and its time range. */
export function Plot({
  title,
  top,
  from,
  to,
  legend,
  children,
}: {
  readonly title: string
  readonly top: string
  readonly from: string
  readonly to: string
  readonly legend: readonly (readonly [name: string, tone: string])[]
  readonly children: ReactNode
}) {
  return (
    <figure className="drawn">
      <figcaption className="row">
        <span>{title}</span>
        <span className="legend grow" aria-hidden="true">
          {legend.map(([name, tone]) => (
            <span key={name} className={tone}>
              {name}
            </span>
          ))}
        </span>
        <span className="sr">Max {top}</span>
      </figcaption>
      <div className="axes">
        <div className="axis note" aria-hidden="true">
          <span>{top}</span>
          <span>0</span>
        </div>
        {children}
      </div>
      <div className="row note axis-x" aria-hidden="true">
        <span className="grow">{from}</span>
        <span>{to}</span>
      </div>
    </figure>
  )
}

/** Bars stacked by outcome, one for each day. */
export function Bars({
  label,
  days,
  series,
}: {
  readonly label: string
  readonly days: readonly string[]
  readonly series: readonly Series[]
}) {
  const sums = days.map((_, i) => series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0))
  const top = Math.max(1, ...sums)
  const width = WIDTH / Math.max(1, days.length)
  return (
    <svg className="plot" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label} preserveAspectRatio="none">
      {days.map((day, i) => {
        let y = HEIGHT
        return series.map(({ name, tone, values }) => {
          const height = ((values[i] ?? 0) / top) * (HEIGHT - 4)
          y -= height
          return height === 0 ? null : (
            <rect
              key={`${day} ${name}`}
              className={`bar ${tone}`}
              x={i * width + 1}
              y={y}
              width={Math.max(1, width - 2)}
              height={height}
              rx="1.5"
            />
          )
        })
      })}
    </svg>
  )
}

/** Lines over the days; a day without an answer leaves a gap. */
export function Lines({
  label,
  days,
  series,
}: {
  readonly label: string
  readonly days: readonly string[]
  readonly series: readonly { readonly name: string; readonly tone: string; readonly values: readonly (number | null)[] }[]
}) {
  const top = Math.max(1, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)))
  const x = (i: number): number => (days.length < 2 ? WIDTH / 2 : (i / (days.length - 1)) * (WIDTH - 8) + 4)
  const y = (value: number): number => HEIGHT - 4 - (value / top) * (HEIGHT - 12)
  return (
    <svg className="plot" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label} preserveAspectRatio="none">
      {series.map(({ name, tone, values }) => (
        <g key={name} className={`line ${tone}`}>
          <path
            d={values
              .map((value, i) =>
                value === null ? '' : `${values[i - 1] === null || i === 0 ? 'M' : 'L'}${x(i).toFixed(1)} ${y(value).toFixed(1)}`,
              )
              .join('')}
          />
          {/* A point is a line without length: it stays round however wide the drawing is. */}
          {values.map(
            (value, i) => value !== null && <path key={days[i]} className="point" d={`M${x(i).toFixed(1)} ${y(value).toFixed(1)}h.01`} />,
          )}
        </g>
      ))}
    </svg>
  )
}
