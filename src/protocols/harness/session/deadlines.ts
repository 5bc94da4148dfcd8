// Due times of a session and of its cursor. They stand in their own index: nothing else keeps a timer for them.

type Times = { readonly at: string | null; readonly call: string; readonly input: object }[]
type OfSession = { readonly id: string; readonly role: string; readonly deadline: string | null; readonly ended_at: string | null }

/** For an answer of people, for the work, for the clean-up after an abort; once it has ended, for what is kept of it. */
export const dueOfSession = ({ id, role, deadline, ended_at }: OfSession): Times => [
  { at: ended_at === null && role === 'callee' ? deadline : null, call: 'harness/harness.expire', input: { session_id: id } },
  { at: ended_at === null ? null : deadline, call: 'harness/harness.forget', input: { session_id: id } },
]

type OfCursor = { readonly id: string; readonly gap_until: string | null; readonly republish_at: string | null }

/** An event that does not come, and an answer that does not. */
export const dueOfCursor = ({ id, gap_until, republish_at }: OfCursor): Times => [
  { at: gap_until, call: 'harness/harness.skip', input: { session_id: id } },
  { at: republish_at, call: 'harness/harness.repeat', input: { session_id: id } },
]

/** Messages whose session no answer has named in time. */
export const dueOfEarly = ({ id, until }: { readonly id: string; readonly until: string }): Times => [
  { at: until, call: 'harness/message.expire', input: { early_id: id } },
]
