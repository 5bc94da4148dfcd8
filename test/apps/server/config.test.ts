// Settings: their sources, and the messages about wrong ones.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ConfigError, helpText, publicOrigin, readConfig, type Config } from '#apps/server/settings/config.ts'
import { exposedIn } from '#apps/server/settings/secret-files.ts'

const started = (argv: string[], env: Record<string, string> = {}): Config => {
  const wish = readConfig(argv, env)
  assert.equal(wish.kind, 'start')
  return (wish as { config: Config }).config
}

test('settings come from flags, then the environment, then the defaults', () => {
  const usual = started([])
  assert.deepEqual(usual, {
    data: join(process.cwd(), 'data'),
    port: 3402,
    host: '127.0.0.1',
    hosts: [],
    publicUrl: null,
    origins: [],
    passkeyOrigins: [],
    proxied: false,
    tls: null,
    issuer: null,
    oidc: null,
    signIn: { sessionMs: 12 * 3_600_000, rememberMs: 30 * 86_400_000, insteadOfLinks: null },
    dev: false,
    log: 'info',
    logOrigin: '',
    logEveryMs: 1_000,
    logIsPublic: true,
    witnesses: null,
    quota: 600,
    requestsOpenMax: 1_000,
    requestsPerMinute: 600,
    criticalPerHourMax: 20,
    defaultSecondsMin: 60,
    readsPerMinute: 60_000,
    blobBytesMax: 64 * 2 ** 20,
    byteQuotas: { task: 2 * 2 ** 30, actor: 8 * 2 ** 30, project: 32 * 2 ** 30 },
    diskFloorBytes: 512 * 2 ** 20,
    socket: join(process.cwd(), 'data', 'countersign.sock'),
    policy: null,
    capabilities: null,
    agents: null,
    webhookPrivate: false,
    webhookAttemptsMax: 20,
    database: null,
    node: null,
    drainMs: 0,
    gates: null,
    harness: null,
    smtp: null,
    mailFrom: '',
    noticesPerHourMax: 60,
    web: 'on',
    skipVerify: false,
    readOnly: false,
    link: false,
  })
  const env = {
    COUNTERSIGN_PORT: '1',
    COUNTERSIGN_LOG: 'debug',
    COUNTERSIGN_QUOTA: 'off',
    COUNTERSIGN_HOSTS: 'a.example, b.example',
    COUNTERSIGN_HOST: '',
  }
  const config = started(['--port=2', '--data', '/tmp/x', '--skip-verify'], env)
  assert.deepEqual(
    [config.port, config.data, config.log, config.quota, config.hosts, config.host, config.skipVerify],
    [2, '/tmp/x', 'debug', null, ['a.example', 'b.example'], '127.0.0.1', true],
  )
  assert.equal(started(['--proxy', 'trusted', '--host', '0.0.0.0']).proxied, true)
  assert.equal(started(['--quota', '50']).quota, 50)
})

test('the public URL is an origin, and comes before the hosts in links', () => {
  const config = started(['--public-url', 'https://tasks.example.com/', '--proxy', 'trusted', '--hosts', 'other.example'])
  assert.equal(config.publicUrl, 'https://tasks.example.com')
  assert.equal(publicOrigin(config, 3402), 'https://tasks.example.com')
  assert.equal(publicOrigin(started(['--public-url', 'http://localhost:9000']), 3402), 'http://localhost:9000')
})

test('a database comes with its secret, by flag or from the environment', () => {
  const url = 'postgres://u:p@db.example.com/countersign'
  assert.deepEqual(started(['--database', url, '--secret-file', '/s', '--blobs', '/b', '--require-replicated', '--node', 'n-1']), {
    ...started([]),
    database: { url, secret: { name: '--secret-file', file: '/s' }, blobs: '/b', isReplicatedOnly: true },
    node: 'n-1',
  })
  const env = { COUNTERSIGN_DATABASE: url, COUNTERSIGN_SECRET: 'x', COUNTERSIGN_NODE: 'n-2', COUNTERSIGN_DRAIN: '30' }
  const { database, node, drainMs } = started([], env)
  assert.deepEqual([database?.secret, node, drainMs], [{ name: 'COUNTERSIGN_SECRET', text: 'x' }, 'n-2', 30_000])
})

test('a URL with a password can be in a file, and is not given twice', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-config-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const env = {
    COUNTERSIGN_DATABASE_FILE: file('database', 'postgres://u:p@db.example.com/countersign\n'),
    COUNTERSIGN_SECRET: 'x',
    COUNTERSIGN_SMTP_FILE: file('smtp', 'smtp://u:p@mail.example.com:587'),
    COUNTERSIGN_AMQP_URL_FILE: file('amqp', 'amqp://lab-a:p@localhost/hcp\n'),
  }
  const { database, smtp, harness } = started([], env)
  assert.deepEqual(
    [database?.url, smtp, harness?.url],
    ['postgres://u:p@db.example.com/countersign', 'smtp://u:p@mail.example.com:587', 'amqp://lab-a:p@localhost/hcp'],
  )
  const refused: [Record<string, string>, RegExp][] = [
    [{ ...env, COUNTERSIGN_SMTP: 'smtp://h' }, /COUNTERSIGN_SMTP and COUNTERSIGN_SMTP_FILE are both given: choose one of them/],
    [{ COUNTERSIGN_AMQP_URL_FILE: join(folder, 'none') }, /COUNTERSIGN_AMQP_URL_FILE cannot be read: ENOENT/],
    [{ COUNTERSIGN_DATABASE_FILE: file('empty', '\n') }, /COUNTERSIGN_DATABASE_FILE names an empty file/],
  ]
  for (const [given, message] of refused) assert.throws(() => started([], given), message)
  assert.deepEqual(exposedIn({ ...env, COUNTERSIGN_DATABASE: 'postgres://u:p@h/d', COUNTERSIGN_SMTP: 'smtp://h' }), [
    'COUNTERSIGN_SECRET',
    'COUNTERSIGN_DATABASE',
  ])
})

test('without a quota there are no others either, unless they are given', () => {
  const asking = (argv: string[], env: Record<string, string> = {}): (number | null)[] => {
    const { requestsOpenMax, requestsPerMinute, criticalPerHourMax, readsPerMinute } = started(argv, env)
    return [requestsOpenMax, requestsPerMinute, criticalPerHourMax, readsPerMinute]
  }
  assert.deepEqual(asking(['--quota', 'off']), [null, null, null, null])
  assert.deepEqual(asking(['--dev']), [null, null, null, null])
  assert.deepEqual(asking(['--quota', 'off', '--requests-open', '7'], { COUNTERSIGN_CRITICAL_PER_HOUR: '3' }), [7, null, 3, null])
  assert.deepEqual(asking(['--requests-open', 'off', '--requests-per-minute', '60', '--critical-per-hour', 'off']), [
    null,
    60,
    null,
    60_000,
  ])
  assert.deepEqual(asking([], { COUNTERSIGN_REQUESTS_OPEN: '10', COUNTERSIGN_READS_PER_MINUTE: '5' }), [10, 600, 20, 5])
})

test('the socket is beside the data, elsewhere, or nowhere; a path that the system cannot hold is refused unless nobody asked for it', () => {
  assert.equal(started(['--data', '/tmp/x']).socket, '/tmp/x/countersign.sock')
  assert.equal(started(['--data', '/tmp/x'], { COUNTERSIGN_SOCKET: '/run/c.sock' }).socket, '/run/c.sock')
  assert.equal(started(['--socket', 'off']).socket, null)
  const deep = `/tmp/${'x'.repeat(100)}`
  assert.equal(started(['--data', deep]).socket, null)
  assert.throws(() => readConfig(['--socket', `${deep}/c.sock`], {}), /--socket is .* longer than 103 bytes/)
})

for (const [argv, message] of [
  [['--port', 'x'], /--port must be a port from 0 to 65535, not "x"/],
  [['--port', '65536'], /--port must be a port/],
  [['--port', '-1'], /--port must be a port/],
  [['--port'], /--port needs a value/],
  [['--webhook-attempts', '0'], /--webhook-attempts must be a number from 1 to 100, not "0"/],
  [['--webhook-attempts', '1e9'], /--webhook-attempts must be a number/],
  [['--drain', '31'], /--drain must be a number of seconds from 0 to 30, not "31"/],
  [['--drain', '-1'], /--drain must be a number of seconds/],
  [['--node', 'a b'], /--node must be a name/],
  [['--smtp', 'mail.example.com'], /--smtp must be an address such as smtp:/],
  [['--smtp', 'https://mail.example.com'], /--smtp must be an address such as smtp:/],
  [['--mail-from', 'Countersign'], /--mail-from must be one e-mail address/],
  [['--mail-from', 'a@example.com,b@example.com'], /--mail-from must be one e-mail address/],
  [['--notices-per-hour', '0'], /--notices-per-hour must be a number/],
  [['--database', 'mysql://h/d', '--secret', 'x'], /--database must be a URL such as postgres:/],
  [['--database', 'postgres://u:hush@h/d'], /--database needs COUNTERSIGN_SECRET or COUNTERSIGN_SECRET_FILE/],
  [['--database', 'postgres://h/d', '--secret', 'x', '--secret-file', 'y'], /--secret and --secret-file are both given/],
  [['--secret', 'x'], /--secret needs --database/],
  [['--blobs', 'x'], /--blobs needs --database/],
  [['--require-replicated'], /--require-replicated needs --database/],
  [['--webhook-private', 'yes'], /--webhook-private must be on, off/],
  [['--port', '--log'], /--port needs a value/],
  [['--port', '1', '--port', '2'], /--port is given twice/],
  [['--skip-verify=yes'], /--skip-verify takes no value/],
  [['--log', 'loud'], /--log must be silent, error, warn, info, debug, not "loud"/],
  [['--quota', 'maybe'], /--quota must be a number from 1 to 9999999, or off, not "maybe"/],
  [['--quota', '0'], /--quota must be a number/],
  [['--quota', '-5'], /--quota must be a number/],
  [['--requests-open', '0'], /--requests-open must be a number from 1 to 9999999, or off, not "0"/],
  [['--critical-per-hour', 'few'], /--critical-per-hour must be a number/],
  [['--proxy', 'yes'], /--proxy must be trusted/],
  [['--hosts', 'http://a.example'], /--hosts lists host names without port or path/],
  [['--public-url', 'tasks.example.com'], /--public-url must be an address without a path/],
  [['--public-url', 'https://tasks.example.com/x', '--proxy', 'trusted'], /--public-url must be an address without a path/],
  [['--public-url', 'http://tasks.example.com'], /--public-url must be an address without a path/],
  [['--public-url', 'https://tasks.example.com'], /speaks plain HTTP: declare the proxy/],
  [['--public-url', 'http://127.0.0.1:9', '--proxy', 'trusted'], /name an https address/],
  [['--link=yes'], /--link takes no value/],
  [['--host', '0.0.0.0'], /others can reach.*--proxy trusted/],
  [['--host', 'example.com'], /others can reach/],
  [['--tls-cert', 'a.pem'], /--tls-cert needs --tls-key: a certificate and its key go together/],
  [['--tls-key', 'a.pem', '--host', '0.0.0.0'], /--tls-key needs --tls-cert/],
  [['--issuer', 'https://id.example'], /--issuer needs --audience/],
  [['--audience', 'x'], /--audience needs --issuer/],
  [['--issuer-jwks', 'https://id.example/keys'], /--issuer-jwks needs --issuer/],
  [['--oidc-client-id', 'x'], /--oidc-client-id needs --issuer/],
  [['--issuer', 'https://id.example', '--audience', 'x', '--oidc-people', 'create'], /--oidc-people needs --oidc-client-id/],
  [['--issuer', 'https://id.example', '--oidc-client-id', 'x', '--oidc-people', 'any'], /--oidc-people must be link, create/],
  [['--issuer', 'https://id.example', '--oidc-client-id', 'x y'], /--oidc-client-id must have 1 to 200 characters without spaces/],
  [
    ['--issuer', 'https://id.example', '--oidc-client-id', 'x', '--oidc-scopes', 'profile'],
    /--oidc-scopes must be scopes .* openid among them/,
  ],
  [
    ['--issuer', 'https://id.example', '--oidc-client-id', 'x', '--oidc-groups-claim', ' '],
    /--oidc-groups-claim must be the name of a claim/,
  ],
  [
    ['--issuer', 'https://id.example', '--oidc-client-id', 'x', '--oidc-client-secret-file', '/none'],
    /--oidc-client-secret-file cannot be read/,
  ],
  [['--issuer', 'http://id.example', '--oidc-client-id', 'x'], /--issuer must be a URL with https/],
  [['--login-links', 'off'], /--login-links off needs --issuer and --oidc-client-id/],
  [['--session-max', 'PT1S'], /--session-max must be a duration from PT1M to P31D/],
  [['--session-max', '12h'], /--session-max must be a duration/],
  [['--remember', 'P1Y'], /--remember must be a duration/],
  [['--issuer', 'http://id.example', '--audience', 'x'], /--issuer must be a URL with https \(http on this machine only\)/],
  [['--issuer', 'id.example', '--audience', 'x'], /--issuer must be a URL/],
  [['--issuer', 'https://a:b@id.example', '--audience', 'x'], /--issuer must be a URL/],
  [['--issuer', 'https://id.example', '--audience', 'x', '--issuer-jwks', 'file:///etc/keys'], /--issuer-jwks must be a URL/],
  [['--dev', '--proxy', 'trusted'], /--dev accepts credentials that everybody knows, so it does not go with --proxy/],
  [['--dev', '--proxy', 'trusted', '--host', '0.0.0.0'], /--dev .* does not go with --proxy/],
  [['--dev', '--host', '0.0.0.0'], /others can reach/],
  [['--dev', '--host', '10.0.0.1', '--tls-cert', 'a', '--tls-key', 'b'], /--dev .* --host must be 127\.0\.0\.1, not 10\.0\.0\.1/],
  [['--dev=yes'], /--dev takes no value/],
  [['serve'], /unknown word "serve"/],
  [['--zzzzzzzz'], /there is no option --zzzzzzzz \(see --help\)/],
] as const) {
  test(`${argv.join(' ')} is refused with a sentence`, () => {
    assert.throws(
      () => readConfig(argv, {}),
      (error) => error instanceof ConfigError && message.test(error.message),
    )
  })
}

test('a certificate and its key, an issuer, and development mode are read from flags and variables', () => {
  const tls = started(['--tls-cert', '/a.pem', '--host', '0.0.0.0'], { COUNTERSIGN_TLS_KEY: '/b.pem' })
  assert.deepEqual([tls.tls, tls.host], [{ cert: '/a.pem', key: '/b.pem' }, '0.0.0.0'])
  const env = { COUNTERSIGN_ISSUER: 'https://id.example/', COUNTERSIGN_AUDIENCE: 'desk' }
  assert.deepEqual(started([], env).issuer, { url: 'https://id.example/', jwks: null, audience: 'desk' })
  const jwks = 'http://127.0.0.1:1/keys'
  assert.equal(started(['--issuer-jwks', jwks], env).issuer?.jwks, jwks)
  const oidc = started(['--oidc-client-id', 'tasks'], { COUNTERSIGN_ISSUER: 'https://id.example' })
  assert.deepEqual(
    [oidc.issuer?.audience, oidc.signIn.rememberMs],
    ['tasks', null],
    'the client id is the audience, and devices are not remembered',
  )
  assert.equal(started(['--remember', 'P30D'], env).signIn.rememberMs, 30 * 86_400_000)
  const dev = started(['--dev'])
  assert.deepEqual([dev.dev, dev.quota], [true, null], 'without quotas')
  assert.equal(dev.defaultSecondsMin, null, 'a default decides as soon as it likes')
  assert.equal(started(['--dev', '--default-after', '90']).defaultSecondsMin, 90)
  assert.equal(started(['--dev', '--quota', '600']).quota, 600, 'unless somebody wants them')
  assert.equal(started([], { COUNTERSIGN_DEV: '1' }).dev, true)
  assert.equal(started([], { COUNTERSIGN_DEV: '0' }).dev, false)
  assert.equal(started(['--host', '::1'], { COUNTERSIGN_DEV: '1' }).dev, true)
  assert.throws(() => readConfig([], { COUNTERSIGN_DEV: 'yes' }), /COUNTERSIGN_DEV must be 1 or 0, not "yes"/)
})

test('a bad variable is named as it is spelled', () => {
  assert.throws(() => readConfig([], { COUNTERSIGN_PORT: 'x' }), /COUNTERSIGN_PORT must be a port/)
})

test('the help is a table whose words begin in one column, and its examples start', () => {
  const [, table] = /\[options\]\n\n(.*?)\n\nExamples:/s.exec(helpText())!
  const isFlagAlone = (line: string): boolean => /^ {2}--\S+( \S+)?$/.test(line)
  for (const line of table!.split('\n')) assert.ok(isFlagAlone(line) || /^( {2}--.{17} | {22})\S/.test(line), line)
  const examples = [...helpText('run').matchAll(/^ {2}run (.*)$/gm)].map(([, message]) => message!)
  assert.ok(examples.length >= 3 && examples.length <= 6, 'a few')
  for (const message of examples) assert.equal(readConfig(message.split(' '), {}).kind, 'start', message)
})
