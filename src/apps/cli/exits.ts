// How a command ends when it does not end well: the code for scripts, the sentence and the hint for people.

export const exits = {
  ok: 0,
  /** The server said no, or what was checked is not in order. */
  refused: 1,
  usage: 2,
  unreachable: 3,
  unauthenticated: 4,
  /** `ask`: a person said no; nobody answered in time; the request was withdrawn. */
  rejected: 5,
  unanswered: 6,
  withdrawn: 7,
  /** Ctrl-C: 128 and the number of the signal, as shells have it. */
  interrupted: 130,
} as const
export type Exit = (typeof exits)[keyof typeof exits]

/** Everything that a user may meet. Anything else that is thrown is a bug. */
export class CliError extends Error {
  override name = 'CliError'
  readonly exit: Exit
  readonly code: string
  /** What to do about it. */
  readonly hint: string | null
  readonly details: Readonly<Record<string, unknown>>
  constructor(exit: Exit, code: string, message: string, hint: string | null = null, details: Readonly<Record<string, unknown>> = {}) {
    super(message)
    this.exit = exit
    this.code = code
    this.hint = hint
    this.details = details
  }
}

export const usage = (message: string, hint: string | null = null): CliError => new CliError(exits.usage, 'USAGE', message, hint)

/** Ctrl-C at a question. */
export class Interrupted extends CliError {
  override name = 'Interrupted'
  constructor() {
    super(exits.interrupted, 'INTERRUPTED', 'interrupted')
  }
}

const hints: Readonly<Record<string, string>> = {
  UNAUTHENTICATED: 'store a key with `countersign login`, or set COUNTERSIGN_KEY',
  UNAUTHORIZED: '`countersign whoami` shows whose key this is',
  NOT_FOUND: 'what is not yours is not shown either; `countersign task list` shows what there is',
  CONFLICT: 'somebody was faster: look at it again, then decide anew',
  PRECONDITION_FAILED: '`countersign task get <task_id>` shows the state that the task is in',
  CHECKPOINT_EXPIRED: 'a successor may be waiting: `countersign checkpoint list`',
  QUOTA_EXCEEDED: 'wait a minute, then try again',
  TOO_LARGE: 'send large content with `countersign artifact commit --file`',
  BUSY: 'the server has more to do than it can take: try again',
  UNAVAILABLE: 'the server cannot write at present: `countersign doctor` may say why',
  INTERNAL: "the server's log says more",
}

/** A refusal by its code: what it means for a script, and what a person can do. */
export function refusedBy(
  code: string,
  message: string,
  details: Readonly<Record<string, unknown>> = {},
  hint: string | null = hints[code] ?? null,
): CliError {
  const exit = code === 'UNAUTHENTICATED' ? exits.unauthenticated : exits.refused
  return new CliError(exit, code, message, hint, details)
}
