// The prompts that an ACP agent gets after the first: its protocol can carry neither the reason of a refusal nor an amendment.
import type { Message } from '#protocols/delegation/schema.ts'

/** The outcome of a question, for the next prompt. */
export type Answered = { readonly what: string; readonly kind: 'rejected' | 'unanswered' | 'approved' | 'unknown'; readonly reason: string }

const sentences: Readonly<Record<Answered['kind'], (answered: Answered) => string>> = {
  rejected: ({ what, reason }) => `A person rejected ${what}: ${reason}. It was not run. Continue the task without it, or another way.`,
  unanswered: ({ what, reason }) =>
    `Nobody answered your question about ${what} (${reason}). It was not run, and nobody rejected it. Ask again if you still need it.`,
  approved: ({ what }) => `A person approved ${what} while you were stopped. It was not run. Do it now, with exactly the same arguments.`,
  unknown: ({ what }) =>
    `You were stopped while ${what} ran, so its outcome is unknown. Look at what it did before you decide whether to repeat it.`,
}

export const steersOf = (messages: readonly Message[]): string[] =>
  messages.flatMap(({ kind, body }) => {
    const { text } = body as { text?: unknown }
    return kind === 'steer' && typeof text === 'string' ? [text] : []
  })

export function nextPrompt(answered: readonly Answered[], amendments: readonly string[]): string {
  return [
    ...answered.map((answer) => sentences[answer.kind](answer)),
    ...(amendments.length === 0 ? [] : ['The people of the task add:', ...amendments.map((text) => `- ${text}`)]),
    'Finish the task, and say what you did.',
  ].join('\n')
}

export const againPrompt = (answered: readonly Answered[], amendments: readonly string[]): string =>
  `You were interrupted. What you did so far is still in place.\n${nextPrompt(answered, amendments)}`

export const forgottenPrompt = (task: string, record: string): string =>
  `You worked on this task before, and that session cannot be continued. This is what the record holds of it:\n\n${record}\n\n${task}`
