// What is answered, by action (HXP 0.1, 2).
import { canonical } from '#kernel/canonical.ts'
import type { Payload } from './payload.ts'

export function resultOf(
  _action: string,
  _payload: Payload,
  { result, reason }: { result: unknown; reason?: string | null },
): { result: unknown; reason?: string } {
  return { result, ...(reason ? { reason } : {}) }
}
export const resultText = (result: unknown): string => (typeof result === 'string' ? result : canonical(result ?? null))
