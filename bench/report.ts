// The table of a benchmark: rows, some of them with a goal.
import { readFileSync } from 'node:fs'

export type Row = {
  readonly what: string
  readonly value: string
  readonly more?: string
  /** A sentence such as `>= 4x`, and whether it is met. */
  readonly goal?: { readonly message: string; readonly met: boolean }
}
export type Bench = {
  readonly name: string
  readonly message: string
  /** Runs only if it is named: it takes things from outside. */
  readonly isByName?: true
  run(say: (line: string) => void): Promise<Row[]>
}

export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
export const rate = (perSecond: number): string => `${Math.round(perSecond).toLocaleString('en')}/s`
export const ms = (value: number): string => `${value < 10 ? value.toFixed(2) : value.toFixed(1)} ms`
export const times = (ratio: number): string => `${ratio.toFixed(2)}x`

const TICKS_PER_SECOND = 100
/** CPU time and memory of a process, as Linux tells it; null elsewhere. */
export function usageOf(pid: number): { cpuSeconds: number; rssMb: number; peakMb: number } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const mb = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)![1]) / 1_024
    return { cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND, rssMb: mb('VmRSS'), peakMb: mb('VmHWM') }
  } catch {
    return null
  }
}

/** CPU time of a process and of its children that have ended: a pool of connections ends and begins processes of a database. */
export function spentBy(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_SECOND
  } catch {
    return 0
  }
}

/** CPU time of processes and their children that are still there; null where Linux does not tell. */
export function cpuSecondsOf(pids: readonly number[]): number | null {
  const all = pids.flatMap((pid) => [pid, ...childrenOf(pid)]).map((pid) => usageOf(pid)?.cpuSeconds ?? null)
  return all[0] === null ? null : all.reduce<number>((sum, seconds) => sum + (seconds ?? 0), 0)
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

export function tableOf(rows: readonly Row[]): string {
  const cells = rows.map(({ what, value, more = '', goal }) => [
    what,
    value,
    more,
    goal?.message ?? '',
    goal ? (goal.met ? 'pass' : 'FAIL') : '',
  ])
  const all = [['what', 'result', 'more', 'goal', ''], ...cells]
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)))
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
