// Figures for operators in the Prometheus text format, over all bindings. Counting a call is a few additions.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Kernel } from '#kernel/kernel.ts'

const BOUNDS_MS = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500]

export type CallMeter = { count(code: string, ms: number): void }
export type CallMetrics = {
  /** `binding`: the binding on which the calls arrive. */
  of(operation: string, binding?: string): CallMeter
  text(kernel: Kernel, connections: number, streams: number): Promise<string>
  close(): void
}

type Counted = { ok: number; readonly others: Map<string, number>; readonly buckets: number[]; sumMs: number; total: number }

/** `more`: further lines, in the same format. */
export function createCallMetrics(more: () => readonly string[] | Promise<readonly string[]> = () => []): CallMetrics {
  const calls = new Map<string, Counted>()
  const delay = monitorEventLoopDelay({ resolution: 20 })
  delay.enable()

  function of(operation: string, binding = 'http'): CallMeter {
    const labels = `binding="${binding}",operation="${operation}"`
    const counted: Counted = calls.get(labels) ?? { ok: 0, others: new Map(), buckets: BOUNDS_MS.map(() => 0), sumMs: 0, total: 0 }
    calls.set(labels, counted)
    return {
      count(code, ms) {
        if (code === 'OK') counted.ok++
        else counted.others.set(code, (counted.others.get(code) ?? 0) + 1)
        counted.total++
        counted.sumMs += ms
        let bucket = 0
        while (ms > BOUNDS_MS[bucket]!) bucket++
        if (bucket < BOUNDS_MS.length) counted.buckets[bucket]!++
      },
    }
  }

  async function text(kernel: Kernel, connections: number, streams: number): Promise<string> {
    const others = await more()
    const store = kernel.store.stats()
    const { conflicts, denials, waiting } = kernel.stats()
    const lines = [
      ...callLines(calls),
      ...single('countersign_commit_groups_total', 'counter', 'Transactions of the store.', store.groups),
      ...single('countersign_commit_batches_total', 'counter', 'Batches that went into them.', store.batches),
      ...single('countersign_commit_waiting', 'gauge', 'Batches that wait for the disk.', store.waiting),
      ...single('countersign_store_position', 'gauge', 'Position of the last fact.', store.position),
      ...single('countersign_conflicts_total', 'counter', 'Decisions that lost a race and were taken again.', conflicts),
      ...single('countersign_denials_total', 'counter', 'Calls that were refused for lack of authority.', denials),
      ...single('countersign_calls_waiting', 'gauge', 'Long polls that wait for a result.', waiting),
      ...single('countersign_connections', 'gauge', 'Open connections.', connections),
      ...single('countersign_streams', 'gauge', 'Open streams.', streams),
      ...single('process_resident_memory_bytes', 'gauge', 'Resident memory.', process.memoryUsage.rss()),
      ...single(
        'countersign_event_loop_delay_p99_seconds',
        'gauge',
        'Delay of the event loop since the last look.',
        delay.percentile(99) / 1e9,
      ),
      ...single(
        'countersign_event_loop_delay_max_seconds',
        'gauge',
        'Longest delay of the event loop since the last look.',
        delay.max / 1e9,
      ),
      ...others,
    ]
    delay.reset()
    return `${lines.join('\n')}\n`
  }

  return { of, text, close: () => delay.disable() }
}

const head = (name: string, type: string, help: string): string[] => [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
const single = (name: string, type: string, help: string, value: number): string[] => [...head(name, type, help), `${name} ${value}`]

function callLines(calls: ReadonlyMap<string, Counted>): string[] {
  const used = [...calls].filter(([, { total }]) => total > 0)
  return [
    ...head('countersign_calls_total', 'counter', 'Calls by binding, operation and code of the answer.'),
    ...used.flatMap(([labels, { ok, others }]) =>
      [...(ok > 0 ? [['OK', ok] as const] : []), ...others].map(
        ([code, count]) => `countersign_calls_total{${labels},code="${code}"} ${count}`,
      ),
    ),
    ...head('countersign_call_seconds', 'histogram', 'Time from the read request to the answer.'),
    ...used.flatMap(([labels, counted]) => histogramLines(labels, counted)),
  ]
}

function histogramLines(labels: string, { buckets, sumMs, total }: Counted): string[] {
  let below = 0
  const rows = buckets.map((count, i) => {
    below += count
    return `countersign_call_seconds_bucket{${labels},le="${BOUNDS_MS[i]! / 1_000}"} ${below}`
  })
  return [
    ...rows,
    `countersign_call_seconds_bucket{${labels},le="+Inf"} ${total}`,
    `countersign_call_seconds_sum{${labels}} ${sumMs / 1_000}`,
    `countersign_call_seconds_count{${labels}} ${total}`,
  ]
}
