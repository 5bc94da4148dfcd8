// The log: JSON lines from a level on, without secrets, and never a reason to fail.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLog, type Logger } from '#apps/server/log.ts'
import type { LogLevel } from '#apps/server/settings/config.ts'

function logged(level: LogLevel, say: (log: Logger) => void): any[] {
  const lines: string[] = []
  say(createLog(level, (line) => void lines.push(line)))
  assert.ok(lines.every((line) => line.endsWith('\n') && !line.trimEnd().includes('\n')))
  return lines.map((line) => JSON.parse(line))
}

test('a line has its level, its time, its fields and its words, in this order', () => {
  const [plain, full] = logged('info', (log) => {
    log.info('ready')
    log.child({ node: 'a' }).warn({ port: 1 }, 'busy')
  })
  assert.deepEqual(Object.keys(plain), ['level', 'time', 'msg'])
  assert.match(plain.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual(
    [Object.keys(full), full.level, full.node, full.port, full.msg],
    [['level', 'time', 'node', 'port', 'msg'], 'warn', 'a', 1, 'busy'],
  )
})

test('lines below the level are left out, and all of them if it is silent', () => {
  const all = (log: Logger): void => (['debug', 'info', 'warn', 'error', 'fatal'] as const).forEach((level) => log[level](level))
  for (const [level, count] of [
    ['debug', 5],
    ['info', 4],
    ['warn', 3],
    ['error', 2],
    ['silent', 0],
  ] as const)
    assert.deepEqual([logged(level, all).length, createLog(level).level, createLog(level).child({}).level], [count, level, level])
})

test('secrets do not come out, however deep they lie', () => {
  const [line] = logged('info', (log) => log.info({ key: 'cs_1', inner: { list: [{ token: 'cs_2', authorization: 'Bearer cs_3' }] } }, 'x'))
  assert.deepEqual(line.inner.list[0], { token: '[redacted]', authorization: '[redacted]' })
  assert.equal(line.key, '[redacted]')
})

test('an error has its kind, words, stack, cause and code', () => {
  const error = Object.assign(new TypeError('no', { cause: new Error('why') }), { code: 'EIO' })
  const [{ err }] = logged('error', (log) => log.error({ err: error }, 'it failed'))
  assert.deepEqual([err.type, err.message, err.code, err.cause.message], ['TypeError', 'no', 'EIO', 'why'])
  assert.match(err.stack, /^TypeError: no\n/)
})

test('fields that JSON cannot hold cost the fields, and nothing else', () => {
  const ring: { self?: object } = {}
  ring.self = ring
  const lines = logged('info', (log) => {
    log.info({ ring }, 'round')
    log.info({ large: 2n ** 64n }, 'large')
  })
  assert.deepEqual([lines[0].msg, lines[0].fields, lines[1].large], ['round', 'they cannot be written as JSON', '18446744073709551616'])
})
