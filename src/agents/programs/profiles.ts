// Profiles of programs: the start, the input and the output of each. Some are built in, for our JSON lines and for command-line
// coding agents. Operators configure others in the same shape.
import type { Request } from '#protocols/delegation/schema.ts'
import { textsAt } from './kept-session.ts'

export type Profile = {
  /** `{prompt}` in an argument is replaced; empty: the operator gives the whole command. */
  readonly argv: readonly string[]
  /** lines: the messages, as JSON lines; stdin and argv: one prompt, then the end; acp: a session of the Agent Client Protocol. */
  readonly input: 'lines' | 'stdin' | 'argv' | 'acp'
  /**
   * lines: our JSON lines; text: the whole output is delivered; result: the output is JSON lines, and `field` of the last line that has it
   * is delivered, unless that line has `is_error: true`.
   */
  readonly output: { readonly kind: 'lines' } | { readonly kind: 'text' } | { readonly kind: 'result'; readonly field: string }
  /**
   * How the program keeps a session between runs, if the command has `{session}`. `begin`: flags of a first run, with an id from this server, or null
   * if the program chooses it and prints it in `idField`.
   */
  readonly session?: {
    readonly begin: readonly string[] | null
    readonly resume: readonly string[]
    readonly idField: string | null
    readonly output: Profile['output']
  }
}

export const profiles: Readonly<Record<string, Profile>> = {
  lines: { argv: [], input: 'lines', output: { kind: 'lines' } },
  acp: { argv: [], input: 'acp', output: { kind: 'lines' } },
  text: { argv: [], input: 'stdin', output: { kind: 'text' } },
  claude: {
    argv: ['claude', '-p', '--output-format', 'stream-json', '--verbose', '{session}'],
    input: 'stdin',
    output: { kind: 'result', field: 'result' },
    session: {
      begin: ['--session-id', '{session}'],
      resume: ['--resume', '{session}'],
      idField: null,
      output: { kind: 'result', field: 'result' },
    },
  },
  codex: {
    argv: ['codex', 'exec', '--json', '{session}', '-'],
    input: 'stdin',
    output: { kind: 'text' },
    session: { begin: null, resume: ['resume', '{session}'], idField: 'thread_id', output: { kind: 'result', field: 'item.text' } },
  },
  gemini: {
    argv: ['gemini', '-o', 'json', '{session}', '-p', '{prompt}'],
    input: 'argv',
    output: { kind: 'text' },
    session: { begin: null, resume: ['--resume', '{session}'], idField: 'session_id', output: { kind: 'result', field: 'response' } },
  },
  opencode: {
    argv: ['opencode', 'run', '--format', 'json', '{session}', '{prompt}'],
    input: 'argv',
    output: { kind: 'text' },
    session: { begin: null, resume: ['--session', '{session}'], idField: 'sessionID', output: { kind: 'result', field: 'part.text' } },
  },
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

/** The request as a prompt. It begins with a fixed word, so that no program mistakes it for an option. */
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

/** The deliverable in the output of a program; null if there is none. */
export function resultIn(printed: string, output: Profile['output']): string | null {
  if (output.kind !== 'result') return printed.trim() === '' ? null : printed
  for (const { text, event } of textsAt(printed, output.field)) return event['is_error'] === true || text.trim() === '' ? null : text
  return null
}
