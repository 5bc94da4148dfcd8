// The public keys of an issuer: fetched for the first token, cached for a while, and fetched again when a token names an unknown key.
// Requests to the issuer are rare no matter how many tokens arrive, and an unresponsive issuer delays no call for long.
import type { JSONWebKeySet, JWTVerifyGetKey } from 'jose'
import { Refusal } from '#kernel/declare/errors.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { isSafeUrl, type IssuerSettings } from '../settings/config.ts'
import type { Logger } from '../log.ts'

/** Time limits, which tests shorten. */
export type KeySetBounds = { readonly askMs: number; readonly freshMs: number; readonly staleMs: number; readonly retryMs: number }
export const usualBounds: KeySetBounds = {
  askMs: limits.issuerMsMax,
  freshMs: limits.issuerFreshMs,
  staleMs: limits.issuerStaleMs,
  retryMs: limits.issuerRetryMs,
}

export type IssuerKeys = {
  /** The known keys; refuses with BUSY if there are none. */
  current(): Promise<JWTVerifyGetKey>
  /** After asking the issuer again, unless it was asked just now. `insists`: even then, for a token that the issuer itself has just sent. */
  renewed(insists?: boolean): Promise<JWTVerifyGetKey>
}

type Held = { readonly keys: JWTVerifyGetKey; readonly at: number }
type Issuing = Pick<IssuerSettings, 'url' | 'jwks'>

export function createIssuerKeys(
  issuer: Issuing,
  keysIn: (set: JSONWebKeySet) => JWTVerifyGetKey,
  { askMs, freshMs, staleMs, retryMs }: KeySetBounds,
  log: Pick<Logger, 'warn'>,
): IssuerKeys {
  // Measures ages with a monotonic clock: a corrected time of day changes nothing.
  const now = (): number => performance.now()
  let held: Held | null = null
  let asked = Number.NEGATIVE_INFINITY
  let asking: Promise<void> | null = null

  async function ask(): Promise<void> {
    try {
      const signal = AbortSignal.timeout(askMs)
      const url = issuer.jwks ?? (await jwksUriOf(issuer.url, signal))
      held = { keys: keysIn((await jsonAt(url, signal)) as JSONWebKeySet), at: now() }
    } catch (error) {
      log.warn({ issuer: issuer.url }, `the keys of the issuer could not be fetched: ${reasonIn(error)}`)
    }
  }

  /** Never rejects. Concurrent callers share one request. */
  function refresh(insists = false): Promise<void> {
    if (asking === null && (insists || now() - asked >= retryMs)) {
      asked = now()
      asking = ask().finally(() => (asking = null))
    }
    return asking ?? Promise.resolve()
  }

  const ageOf = (held: Held | null): number => (held === null ? Number.POSITIVE_INFINITY : now() - held.at)
  function heldKeys(): JWTVerifyGetKey {
    if (held !== null && ageOf(held) < staleMs) return held.keys
    const retry_after = Math.max(1, Math.ceil((asked + retryMs - now()) / 1_000))
    throw new Refusal('BUSY', 'the issuer of this token cannot be reached at the moment, so the token cannot be checked', { retry_after })
  }

  return {
    async current() {
      const age = ageOf(held)
      if (age >= staleMs) await refresh()
      else if (age >= freshMs) void refresh()
      return heldKeys()
    },
    async renewed(insists) {
      await refresh(insists)
      return heldKeys()
    },
  }
}

/** By OpenID Connect Discovery. The description must be the issuer's own, or one issuer could speak for another. */
async function jwksUriOf(url: string, signal: AbortSignal): Promise<string> {
  const about = (await jsonAt(`${url.replace(/\/$/, '')}/.well-known/openid-configuration`, signal)) as Record<string, unknown> | null
  if (about?.['issuer'] !== url) throw new Error(`its description names the issuer ${JSON.stringify(about?.['issuer'] ?? null)}`)
  const uri = about['jwks_uri']
  if (typeof uri !== 'string' || !isSafeUrl(uri)) throw new Error('its description has no jwks_uri with https')
  return uri
}

async function jsonAt(url: string, signal: AbortSignal): Promise<unknown> {
  const answer = await fetch(url, { signal, redirect: 'error', headers: { accept: 'application/json' } })
  if (answer.status !== 200) {
    await answer.body?.cancel()
    throw new Error(`${url} answered ${answer.status}`)
  }
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of answer.body ?? []) {
    size += part.length
    if (size > limits.issuerBytesMax) throw new Error(`${url} answered with more than ${limits.issuerBytesMax} bytes`)
    parts.push(part)
  }
  return decode(Buffer.concat(parts))
}

/** fetch says "fetch failed" and hides the reason below. */
function reasonIn(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { message?: string; code?: string } }
  return cause?.code ?? cause?.message ?? message ?? String(error)
}
