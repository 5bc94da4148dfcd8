// Exit codes of failed commands, each with its sentence and its hint for people.

export const exits = {
  ok: 0,
  /** The server refused, or a check failed. */
  refused: 1,
  usage: 2,
  unreachable: 3,
  unauthenticated: 4,
  /** `ask`: a person said no or declined to answer; the request timed out; the request was withdrawn. */
  rejected: 5,
  unanswered: 6,
  withdrawn: 7,
  /** Ctrl-C: 128 plus the signal number, as in shells. */
  interrupted: 130,
} as const
export type Exit = (typeof exits)[keyof typeof exits]

/** Every error that a user can meet. Any other exception is a bug. */
export class CliError extends Error {
  override name = 'CliError'
  readonly exit: Exit
  readonly code: string
  /** The next step for the person at the terminal. */
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
  CONFLICT: 'it has changed in the meantime: fetch it again and retry',
  CHECKPOINT_EXPIRED: 'a successor may be waiting: `countersign checkpoint list`',
  QUOTA_EXCEEDED: 'wait a minute, then try again',
  TOO_LARGE: 'send large content with `countersign artifact commit --file`',
  BUSY: 'the server has more to do than it can take: try again',
  UNAVAILABLE: 'the server cannot write at present: `countersign doctor` may say why',
  INTERNAL: "the server's log says more",
}

/** The command that lists items of a kind, by the noun in a refusal. */
const listedBy: Readonly<Record<string, string>> = {
  agent: 'agent list',
  channel: 'channel list',
  checkpoint: 'checkpoint list',
  grant: 'grant list <task_id>',
  group: 'group list',
  item: 'inbox list',
  key: 'key list <subject>',
  project: 'project list',
  request: 'inbox list',
  rule: 'rule list',
  run: 'run list',
  session: 'session list',
  task: 'task list',
  user: 'user list',
}

/** A hint that fits the thing that the refusal is about. */
function hintFor(code: string, message: string): string | null {
  if (code === 'NOT_FOUND') {
    const list = listedBy[/^there is no (?:\w+ of an )?(\w+)/.exec(message)?.[1] ?? '']
    return `it does not exist, or you have no access${list === undefined ? '' : `; \`countersign ${list}\` shows what you can see`}`
  }
  if (code === 'PRECONDITION_FAILED' && /\btask\b/.test(message))
    return '`countersign task get <task_id>` shows the state that the task is in'
  if (code === 'UNAVAILABLE' && message === 'the server is starting')
    return 'try again in a moment; `countersign doctor` says when it is ready'
  if (code === 'CONFLICT' && /^there is an? .* already$/.test(message)) return 'this id is taken: choose another, or use the one there is'
  return hints[code] ?? null
}

/** Maps a refusal code to an exit code for scripts and a hint for people. */
export function refusedBy(
  code: string,
  message: string,
  details: Readonly<Record<string, unknown>> = {},
  hint: string | null = hintFor(code, message),
): CliError {
  const exit = code === 'UNAUTHENTICATED' ? exits.unauthenticated : exits.refused
  return new CliError(exit, code, message, hint, details)
}
