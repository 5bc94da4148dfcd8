// Due times of a session and of its cursor. Their own index is the only timer for them.

type Times = { readonly at: string | null; readonly call: string; readonly input: object }[]
type OfSession = { readonly id: string; readonly role: string; readonly deadline: string | null; readonly ended_at: string | null }

/** The deadline for an answer of people, for the work, or for the clean-up after an abort; after the end, for the stored data. */
export const dueOfSession = ({ id, role, deadline, ended_at }: OfSession): Times => [
  { at: ended_at === null && role === 'callee' ? deadline : null, call: 'harness/harness.expire', input: { session_id: id } },
  { at: ended_at === null ? null : deadline, call: 'harness/harness.forget', input: { session_id: id } },
]

type OfCursor = { readonly id: string; readonly gap_until: string | null; readonly republish_at: string | null }

/** The deadlines for a missing event and for a missing answer. */
export const dueOfCursor = ({ id, gap_until, republish_at }: OfCursor): Times => [
  { at: gap_until, call: 'harness/harness.skip', input: { session_id: id } },
  { at: republish_at, call: 'harness/harness.repeat', input: { session_id: id } },
]

/** The deadline of messages whose session no answer has named yet. */
export const dueOfEarly = ({ id, until }: { readonly id: string; readonly until: string }): Times => [
  { at: until, call: 'harness/message.expire', input: { early_id: id } },
]
