// Lines of the Prometheus text format, for the figures of workers.

const escapeLabel = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
export const labelsOf = (labels: Readonly<Record<string, string>>): string =>
  `{${Object.entries(labels)
    .map(([name, text]) => `${name}="${escapeLabel(text)}"`)
    .join(',')}}`

const head = (name: string, type: string, help: string): string[] => [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]

export const gauge = (name: string, help: string, rows: readonly (readonly [string, number])[]): string[] => [
  ...head(name, 'gauge', help),
  ...rows.map(([labels, value]) => `${name}${labels} ${value}`),
]

export const counter = (name: string, help: string, label: string, rows: ReadonlyMap<string, number>): string[] => [
  ...head(name, 'counter', help),
  ...[...rows].map(([value, count]) => `${name}${labelsOf({ [label]: value })} ${count}`),
]

export type Histogram = { observe(value: number): void; lines(name: string, help: string): string[] }

export function createHistogram(bounds: readonly number[]): Histogram {
  const buckets = bounds.map(() => 0)
  let [sum, count] = [0, 0]
  return {
    observe(value) {
      sum += value
      count++
      const at = bounds.findIndex((bound) => value <= bound)
      if (at !== -1) buckets[at]!++
    },
    lines(name, help) {
      let below = 0
      return [
        ...head(name, 'histogram', help),
        ...buckets.map((n, i) => `${name}_bucket{le="${bounds[i]}"} ${(below += n)}`),
        `${name}_bucket{le="+Inf"} ${count}`,
        `${name}_sum ${sum}`,
        `${name}_count ${count}`,
      ]
    },
  }
}
