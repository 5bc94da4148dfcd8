// The environment variable that marks an agent's program and everything that it starts. Under it the command line refuses the credentials of the
// person whose user the program runs as. It prevents mistakes; only another user or a container stops a hostile program.

/** Its value is the agent's id. */
export const AGENT_VARIABLE = 'COUNTERSIGN_AGENT'

type Env = Readonly<Record<string, string | undefined>>

/** The agent that this process works for; null: a person, or a program of theirs. */
export const markedAgent = (env: Env): string | null => env[AGENT_VARIABLE] || null

/** Commands that start another command as another user, or in another environment. */
const launchers = new Set(
  'sudo doas su runuser setpriv chroot unshare bwrap firejail systemd-run docker podman nerdctl kubectl nsenter lxc-attach ssh'.split(' '),
)

/** Whether a program runs as the user who starts it. Only its command is examined. */
export const sharesUser = (argv: readonly string[]): boolean => !launchers.has(argv[0]?.split('/').at(-1) ?? '')
