// The device behind a request, in a few words for its own person: which browser, on which system, from which address. No decision uses it.
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'

const browsers: readonly (readonly [RegExp, string])[] = [
  [/\bEdgA?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:Headless)?Chrome\/|\bCriOS\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/^curl\//, 'curl'],
]
const systems: readonly (readonly [RegExp, string])[] = [
  [/\bAndroid\b/, 'Android'],
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux'],
]
const USER_AGENT_CHARS_MAX = 500

/** A name such as `Firefox on Android`, built from our own words only, never from the header's text. */
export function browserOf(userAgent: string | undefined): string {
  const text = (userAgent ?? '').slice(0, USER_AGENT_CHARS_MAX)
  const firstMatch = (known: typeof browsers): string | undefined => known.find(([pattern]) => pattern.test(text))?.[1]
  const [browser = 'Unknown browser', system] = [firstMatch(browsers), firstMatch(systems)]
  return system === undefined ? browser : `${browser} on ${system}`
}

/** The client's address; behind a trusted proxy, the address that the proxy saw. */
export function addressOf({ headers, socket }: IncomingMessage, proxied: boolean): string {
  const forwarded = proxied ? String(headers['x-forwarded-for'] ?? '') : ''
  // The proxy appends the address it saw; everything before it is the client's claim.
  const last = forwarded.split(',').at(-1)!.trim()
  return isIP(last) === 0 ? (socket.remoteAddress ?? '') : last
}
