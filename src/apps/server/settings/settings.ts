// Every setting that an operator may change, as data: the help, the documentation and the reading of flags come from this table.
import { limits } from '#kernel/limits.ts'

type Setting = {
  readonly flag: string
  /** null: not from the environment, where it would stay on unseen. A switch is 1 or 0 there. */
  readonly env: string | null
  /** How the value is written; null: a switch without one. */
  readonly value: string | null
  readonly usual: string
  readonly words: string
}

export const settings = [
  {
    flag: 'data',
    env: 'COUNTERSIGN_DATA',
    value: '<folder>',
    usual: './data',
    words: 'where everything is kept',
  },
  {
    flag: 'port',
    env: 'COUNTERSIGN_PORT',
    value: '<number>',
    usual: '3402',
    words: 'port to listen on; 0 takes a free one',
  },
  {
    flag: 'host',
    env: 'COUNTERSIGN_HOST',
    value: '<address>',
    usual: '127.0.0.1',
    words: 'address to listen on; other than loopback only with a certificate or --proxy trusted',
  },
  {
    flag: 'hosts',
    env: 'COUNTERSIGN_HOSTS',
    value: '<names>',
    usual: '',
    words: 'further host names that clients may ask for, with commas',
  },
  {
    flag: 'origins',
    env: 'COUNTERSIGN_ORIGINS',
    value: '<origins>',
    usual: '',
    words: 'pages of other origins that may open a WebSocket and use /hxp, with commas',
  },
  {
    flag: 'proxy',
    env: 'COUNTERSIGN_PROXY',
    value: 'trusted',
    usual: '',
    words: 'a proxy in front ends TLS and sets X-Forwarded-Host',
  },
  {
    flag: 'tls-cert',
    env: 'COUNTERSIGN_TLS_CERT',
    value: '<file>',
    usual: '',
    words: 'speak HTTPS with this certificate (PEM, its chain after it); read again at SIGHUP',
  },
  {
    flag: 'tls-key',
    env: 'COUNTERSIGN_TLS_KEY',
    value: '<file>',
    usual: '',
    words: 'the private key of that certificate (PEM)',
  },
  {
    flag: 'issuer',
    env: 'COUNTERSIGN_ISSUER',
    value: '<url>',
    usual: '',
    words: 'people may come with tokens of this OpenID Connect issuer; needs --audience',
  },
  {
    flag: 'issuer-jwks',
    env: 'COUNTERSIGN_ISSUER_JWKS',
    value: '<url>',
    usual: '',
    words: 'where the keys of the issuer are, if it does not say so itself',
  },
  {
    flag: 'audience',
    env: 'COUNTERSIGN_AUDIENCE',
    value: '<text>',
    usual: '',
    words: 'the `aud` that tokens for this server carry',
  },
  {
    flag: 'dev',
    env: 'COUNTERSIGN_DEV',
    value: null,
    usual: '',
    words: 'development mode: credentials that everybody knows; on this machine only',
  },
  {
    flag: 'log',
    env: 'COUNTERSIGN_LOG',
    value: '<level>',
    usual: 'info',
    words: 'silent, error, warn, info or debug; JSON lines on stderr',
  },
  {
    flag: 'quota',
    env: 'COUNTERSIGN_QUOTA',
    value: '<number>|off',
    usual: String(limits.changesPerMinute),
    words: 'changes that one agent may make in a minute; off: as many as it likes, and no other quotas unless they are given',
  },
  {
    flag: 'requests-open',
    env: 'COUNTERSIGN_REQUESTS_OPEN',
    value: '<number>|off',
    usual: String(limits.asksOpenMax),
    words: 'requests of one agent that may wait for people at a time',
  },
  {
    flag: 'requests-per-minute',
    env: 'COUNTERSIGN_REQUESTS_PER_MINUTE',
    value: '<number>|off',
    usual: String(limits.asksPerMinute),
    words: 'questions that one agent may put to people in a minute',
  },
  {
    flag: 'critical-per-hour',
    env: 'COUNTERSIGN_CRITICAL_PER_HOUR',
    value: '<number>|off',
    usual: String(limits.criticalPerHourMax),
    words: 'requests that one agent may call critical in an hour',
  },
  {
    flag: 'default-after',
    env: 'COUNTERSIGN_DEFAULT_AFTER',
    value: '<seconds>|off',
    usual: String(limits.defaultSecondsMin),
    words: 'seconds that people have at least before the default of a DECIDE may be taken; off in development mode',
  },
  {
    flag: 'reads-per-minute',
    env: 'COUNTERSIGN_READS_PER_MINUTE',
    value: '<number>|off',
    usual: String(limits.readsPerMinute),
    words: 'the read units that one actor may use in a minute: a small answer is one, a page of 200 long tasks some 300',
  },
  {
    flag: 'blob-max',
    env: 'COUNTERSIGN_BLOB_MAX',
    value: '<size>',
    usual: '64MiB',
    words: 'the largest upload, in bytes or with KiB, MiB or GiB',
  },
  {
    flag: 'socket',
    env: 'COUNTERSIGN_SOCKET',
    value: '<path>|off',
    usual: '<data>/countersign.sock',
    words: 'the Unix socket for JSON-RPC; off: none',
  },
  {
    flag: 'agents',
    env: 'COUNTERSIGN_AGENTS',
    value: '<file>',
    usual: '',
    words: 'a JSON file with the agents that are programs of this machine',
  },
  {
    flag: 'webhook-private',
    env: 'COUNTERSIGN_WEBHOOK_PRIVATE',
    value: 'on|off',
    usual: 'off',
    words: 'on: webhooks may be at loopback and private addresses, and plain http',
  },
  {
    flag: 'webhook-attempts',
    env: 'COUNTERSIGN_WEBHOOK_ATTEMPTS',
    value: '<number>',
    usual: String(limits.webhookAttemptsMax),
    words: 'how often a message to a webhook is tried before its run fails; 20 take two days',
  },
  {
    flag: 'capabilities',
    env: 'COUNTERSIGN_CAPABILITIES',
    value: '<file>',
    usual: '',
    words: 'MCP servers and skills that agents may invoke, as JSON',
  },
  {
    flag: 'skip-verify',
    env: null,
    value: null,
    usual: '',
    words: 'start even if the record was changed; /health says so',
  },
  { flag: 'help', env: null, value: null, usual: '', words: 'show this and exit' },
  { flag: 'version', env: null, value: null, usual: '', words: 'show the version and exit' },
] as const satisfies readonly Setting[]

/** Ways to start that people use, the usual ones first. */
export const startExamples: readonly string[] = [
  '--port 8080 --data /var/lib/countersign',
  '--agents agents.json --capabilities capabilities.json',
  '--host 0.0.0.0 --hosts tasks.example.com --tls-cert fullchain.pem --tls-key privkey.pem',
  '--issuer https://login.example.com --audience countersign',
  '--dev --log debug',
]
