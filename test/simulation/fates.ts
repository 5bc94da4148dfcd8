// Fates of a post: the receiver accepts it, refuses, does not answer, answers too late, or is gone.
export const ATTEMPTS_MAX = 3
export const GONE = 410

export const fates = [
  [67, 'takes it'],
  [12, 'refuses'],
  [8, 'does not answer in time'],
  [8, 'answers too late'],
  [5, 'is gone'],
] as const
/** Pushes and mails are few, and most of them leave when the faults are over: in enough histories one of them has to be gone all the same. */
export const fatesOfFew = fates.map(([weight, fate]) => [fate === 'is gone' ? 12 * weight : weight, fate] as const)
export type Fate = (typeof fates)[number][1]

export const outcomes: Readonly<Record<Fate, { readonly status: number | null; readonly error: string | null }>> = {
  'takes it': { status: 200, error: null },
  refuses: { status: 503, error: 'it answered 503' },
  'does not answer in time': { status: null, error: 'no complete answer within 10 s' },
  'answers too late': { status: null, error: 'no complete answer within 10 s' },
  'is gone': { status: GONE, error: 'it answered 410' },
}
