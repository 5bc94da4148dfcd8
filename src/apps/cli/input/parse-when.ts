// A time as people say it: 30m, 2h, 1d, tomorrow, a duration or a time of RFC 3339.
import { Refusal } from '#kernel/declare/errors.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'

const units = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const
const MORNING = 9

export function untilOf(text: string, now: number): string | null {
  const lowered = text.trim().toLowerCase()
  const [, count, unit] = /^(\d{1,4})\s*([mhdw])/.exec(lowered) ?? []
  if (count !== undefined && /^\d{1,4}\s*(m|min|h|hours?|d|days?|w|weeks?)$/.test(lowered))
    return new Date(now + Number(count) * units[unit as keyof typeof units]).toISOString()
  if (lowered === 'tomorrow') {
    const day = new Date(now)
    return new Date(day.getFullYear(), day.getMonth(), day.getDate() + 1, MORNING).toISOString()
  }
  if (lowered.startsWith('p')) return afterDuration(lowered.toUpperCase(), now)
  const isTime = /^\d{4}-\d\d-\d\dt\d\d:\d\d(:\d\d(\.\d{1,9})?)?(z|[+-]\d\d:\d\d)$/.test(lowered)
  const at = isTime ? Date.parse(lowered.toUpperCase()) : Number.NaN
  return Number.isNaN(at) ? null : new Date(at).toISOString()
}

function afterDuration(text: string, now: number): string | null {
  try {
    return new Date(now + durationMs(text, 'INVALID_REQUEST', 'until')).toISOString()
  } catch (error) {
    if (error instanceof Refusal || error instanceof RangeError) return null
    throw error
  }
}
