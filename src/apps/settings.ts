// Every setting that an operator may change, as data: the help, the documentation and the reading of flags come from this table.
import { limits } from '#kernel/limits.ts'

type Setting = {
  readonly flag: string
  /** null: not from the environment, where it would stay on unseen. */
  readonly env: string | null
  /** How the value is written; null: a switch without one. */
  readonly value: string | null
  readonly usual: string
  readonly words: string
  readonly example: string
}

export const settings = [
  {
    flag: 'data',
    env: 'COUNTERSIGN_DATA',
    value: '<folder>',
    usual: './data',
    words: 'where everything is kept',
    example: '--data /var/lib/countersign',
  },
  {
    flag: 'port',
    env: 'COUNTERSIGN_PORT',
    value: '<number>',
    usual: '3402',
    words: 'port to listen on; 0 takes a free one',
    example: '--port 8080',
  },
  {
    flag: 'host',
    env: 'COUNTERSIGN_HOST',
    value: '<address>',
    usual: '127.0.0.1',
    words: 'address to listen on; other than loopback only with --proxy trusted',
    example: '--host ::1',
  },
  {
    flag: 'hosts',
    env: 'COUNTERSIGN_HOSTS',
    value: '<names>',
    usual: '',
    words: 'further host names that clients may ask for, with commas',
    example: '--hosts tasks.example.com',
  },
  {
    flag: 'origins',
    env: 'COUNTERSIGN_ORIGINS',
    value: '<origins>',
    usual: '',
    words: 'pages of other origins that may open a WebSocket, with commas',
    example: '--origins https://desk.example.com',
  },
  {
    flag: 'proxy',
    env: 'COUNTERSIGN_PROXY',
    value: 'trusted',
    usual: '',
    words: 'a proxy in front ends TLS and sets X-Forwarded-Host',
    example: '--proxy trusted --host 0.0.0.0',
  },
  {
    flag: 'log',
    env: 'COUNTERSIGN_LOG',
    value: '<level>',
    usual: 'info',
    words: 'silent, error, warn, info or debug; JSON lines on stderr',
    example: '--log debug',
  },
  {
    flag: 'quota',
    env: 'COUNTERSIGN_QUOTA',
    value: '<number>|off',
    usual: String(limits.changesPerMinute),
    words: 'changes that one agent may make in a minute; off: as many as it likes, and no other quotas unless they are given',
    example: '--quota off',
  },
  {
    flag: 'requests-open',
    env: 'COUNTERSIGN_REQUESTS_OPEN',
    value: '<number>|off',
    usual: String(limits.asksOpenMax),
    words: 'requests of one agent that may wait for people at a time',
    example: '--requests-open 100',
  },
  {
    flag: 'requests-per-minute',
    env: 'COUNTERSIGN_REQUESTS_PER_MINUTE',
    value: '<number>|off',
    usual: String(limits.asksPerMinute),
    words: 'questions that one agent may put to people in a minute',
    example: '--requests-per-minute 60',
  },
  {
    flag: 'critical-per-hour',
    env: 'COUNTERSIGN_CRITICAL_PER_HOUR',
    value: '<number>|off',
    usual: String(limits.criticalPerHourMax),
    words: 'requests that one agent may call critical in an hour',
    example: '--critical-per-hour 5',
  },
  {
    flag: 'blob-max',
    env: 'COUNTERSIGN_BLOB_MAX',
    value: '<size>',
    usual: '64MiB',
    words: 'the largest upload, in bytes or with KiB, MiB or GiB',
    example: '--blob-max 1GiB',
  },
  {
    flag: 'socket',
    env: 'COUNTERSIGN_SOCKET',
    value: '<path>|off',
    usual: '<data>/countersign.sock',
    words: 'the Unix socket for JSON-RPC; off: none',
    example: '--socket /run/countersign/countersign.sock',
  },
  {
    flag: 'agents',
    env: 'COUNTERSIGN_AGENTS',
    value: '<file>',
    usual: '',
    words: 'a JSON file with the agents that are programs of this machine',
    example: '--agents agents.json',
  },
  {
    flag: 'webhook-private',
    env: 'COUNTERSIGN_WEBHOOK_PRIVATE',
    value: 'on|off',
    usual: 'off',
    words: 'on: webhooks may be at loopback and private addresses, and plain http',
    example: '--webhook-private on',
  },
  {
    flag: 'webhook-attempts',
    env: 'COUNTERSIGN_WEBHOOK_ATTEMPTS',
    value: '<number>',
    usual: String(limits.webhookAttemptsMax),
    words: 'how often a message to a webhook is tried before its run fails; 20 take two days',
    example: '--webhook-attempts 12',
  },
  {
    flag: 'capabilities',
    env: 'COUNTERSIGN_CAPABILITIES',
    value: '<file>',
    usual: '',
    words: 'MCP servers and skills that agents may invoke, as JSON',
    example: '--capabilities capabilities.json',
  },
  {
    flag: 'skip-verify',
    env: null,
    value: null,
    usual: '',
    words: 'start even if the record was changed; /health says so',
    example: '--skip-verify',
  },
  { flag: 'help', env: null, value: null, usual: '', words: 'show this and exit', example: '--help' },
  { flag: 'version', env: null, value: null, usual: '', words: 'show the version and exit', example: '--version' },
] as const satisfies readonly Setting[]
