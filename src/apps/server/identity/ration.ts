// Rations for callers without a credential: how often a network address, or a channel, can call in a quarter of an hour.
import { isIPv6 } from 'node:net'
import { setBounded } from '#kernel/codec/bounded-map.ts'
import { tokensIn, type Bucket } from '#kernel/codec/rate-limit.ts'
import { limits } from '#kernel/limits.ts'

const NAMES_MAX = 10_000

/** The most for each name in a quarter of an hour. */
export function createRation(max: number, now: () => number): (name: string) => boolean {
  const buckets = new Map<string, Bucket>()
  return (name) => {
    const at = now()
    const tokens = tokensIn(buckets.get(name), at, max, max, limits.loginMs)
    buckets.delete(name)
    setBounded(buckets, name, { tokens: tokens >= 1 ? tokens - 1 : tokens, at }, NAMES_MAX)
    return tokens >= 1
  }
}

/** The network that a ration is for. One subscriber has a whole /64 of IPv6, so its addresses share one ration. */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  if (mapped) return mapped[1]!
  if (!isIPv6(address)) return address
  // A URL spells every address in one way: without zones and dots, and with at most one `::`.
  const spelled = new URL(`http://[${address.split('%')[0]}]`).hostname.slice(1, -1)
  const [head, tail] = spelled.split('::').map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array.from({ length: 8 - head!.length - (tail?.length ?? 0) }, () => '0')
  return `${[...head!, ...zeros, ...(tail ?? [])].slice(0, 4).join(':')}::/64`
}
