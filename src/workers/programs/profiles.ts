// Ready-made ways to talk to a program: our own JSON lines, or a command-line coding agent that takes a prompt and prints text. Data;
// what an operator configures has the same shape.
import type { Request } from '#protocols/delegation/schema.ts'

export type Profile = {
  /** `{prompt}` in an argument is replaced; empty: the operator gives the whole command. */
  readonly argv: readonly string[]
  /** lines: the messages, as JSON lines; stdin and argv: one prompt, then the end. */
  readonly input: 'lines' | 'stdin' | 'argv'
  /**
   * lines: our own; text: all that it prints is delivered; result: JSON lines of which the last that has `field` is delivered, where
   * `is_error: true` says that it is none.
   */
  readonly output: { readonly kind: 'lines' } | { readonly kind: 'text' } | { readonly kind: 'result'; readonly field: string }
}

export const profiles: Readonly<Record<string, Profile>> = {
  lines: { argv: [], input: 'lines', output: { kind: 'lines' } },
  text: { argv: [], input: 'stdin', output: { kind: 'text' } },
  claude: {
    argv: ['claude', '-p', '--output-format', 'stream-json', '--verbose'],
    input: 'stdin',
    output: { kind: 'result', field: 'result' },
  },
  codex: { argv: ['codex', 'exec', '-'], input: 'stdin', output: { kind: 'text' } },
  gemini: { argv: ['gemini', '-p', '{prompt}'], input: 'argv', output: { kind: 'text' } },
  aider: {
    argv: ['aider', '--yes-always', '--no-pretty', '--no-stream', '--message', '{prompt}'],
    input: 'argv',
    output: { kind: 'text' },
  },
}

const bullets = (title: string, items: unknown): string[] =>
  Array.isArray(items) && items.length > 0
    ? ['', `${title}:`, ...items.map((item) => `- ${typeof item === 'string' ? item : JSON.stringify(item)}`)]
    : []

/** The request in words. It begins with words of ours, so that no program takes it for an option. */
export function promptFor({ input, context }: Pick<Request, 'input' | 'context'>): string {
  const { goal, acceptance_criteria, inputs, constraints, ...rest } = input as Record<string, unknown>
  const { review, ...others } = (context ?? {}) as Record<string, unknown> & { review?: { requested_changes?: unknown } }
  const more = (title: string, value: unknown): string[] =>
    typeof value === 'object' && value !== null && Object.keys(value).length > 0 ? ['', `${title}: ${JSON.stringify(value)}`] : []
  return [
    `Task: ${typeof goal === 'string' ? goal : 'see the input below'}`,
    ...bullets('It is done when', acceptance_criteria),
    ...bullets('Inputs', inputs),
    ...more('Constraints', constraints),
    ...more('Input', rest),
    ...bullets('Changes that the review of your last result asked for', review?.requested_changes),
    ...more('Context', others),
    '',
    'Print the result. It goes to the people who asked for it.',
  ].join('\n')
}

/** The deliverable of a program that printed text; null: nothing. */
export function resultIn(printed: string, output: Profile['output']): string | null {
  if (output.kind !== 'result') return printed.trim() === '' ? null : printed
  for (const line of printed.split('\n').toReversed()) {
    if (!line.trimStart().startsWith('{')) continue
    try {
      const event = JSON.parse(line) as Record<string, unknown>
      const text = event[output.field]
      if (typeof text === 'string') return event['is_error'] === true || text.trim() === '' ? null : text
    } catch {
      // Something else that it printed.
    }
  }
  return null
}
