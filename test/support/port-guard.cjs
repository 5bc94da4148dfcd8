// Loaded into every process of a test run, by NODE_OPTIONS: it connects on this machine only to ports that the run itself has opened, so that
// no test ever talks to a server of the user; and it hands the run's compile cache on. JavaScript for any Node, because old ones are started as well.
'use strict'
const childProcess = require('node:child_process')
const { appendFileSync, readFileSync } = require('node:fs')
const { syncBuiltinESMExports } = require('node:module')
const net = require('node:net')

const folder = process.env.COUNTERSIGN_TEST_GUARD
const flag = `--require ${JSON.stringify(__filename)}`
const compiled = process.env.NODE_COMPILE_CACHE

// --- Ports ---------------------------------------------------------------------------------------------------------------------

const servers = new Set()
let known = new Set()

const read = (name) => {
  try {
    return readFileSync(`${folder}/${name}`, 'utf8').split('\n')
  } catch {
    return []
  }
}
const isOpened = (port) => {
  if (known.has(port)) return true
  known = new Set(read('ports').map(Number))
  for (const server of servers) known.add(server.address()?.port)
  return known.has(port)
}
// A process that may not write has no network either.
const note = (name, line) => {
  try {
    appendFileSync(`${folder}/${name}`, `${line}\n`)
  } catch {}
}

const isHere = (host) =>
  host === undefined || /^(localhost|127\.[\d.]+|0\.0\.0\.0|::|::1|::ffff:127\.[\d.]+)$/i.test(host.replace(/^\[|\]$/g, ''))
const isNpm = /[/\\]np[mx]-cli\.js$/.test(process.argv[1] ?? '')
const mayConnect = process.permission === undefined || process.permission.has('net')

const { connect } = net.Socket.prototype
net.Socket.prototype.connect = function (...args) {
  // net.connect() hands its arguments over as one list; a caller of the method gives them as they are.
  const given = Array.isArray(args[0]) ? args[0][0] : args[0]
  const target =
    given !== null && typeof given === 'object' ? given : { port: given, host: typeof args[1] === 'string' ? args[1] : undefined }
  const port = Number(target.port)
  const isLocal = target.path === undefined && target.fd === undefined && Number.isInteger(port) && isHere(target.host ?? undefined)
  if (!isLocal || isNpm || !mayConnect || isOpened(port)) return connect.apply(this, args)
  const words = `port ${port}, which this test run has not opened`
  note('strangers', `${words} (${process.argv.slice(1, 6).join(' ')})`)
  const error = Object.assign(new Error(`a test connects to ${words}`), { code: 'ECONNREFUSED', syscall: 'connect', port })
  process.nextTick(() => this.destroy(error))
  return this
}

const { listen } = net.Server.prototype
net.Server.prototype.listen = function (...args) {
  servers.add(this)
  this.prependOnceListener('listening', () => {
    servers.delete(this)
    const port = this.address()?.port
    if (port !== undefined) note('ports', port)
  })
  return listen.apply(this, args)
}

// --- Children ------------------------------------------------------------------------------------------------------------------

/** Children are given an environment of their own at times: the guard goes along, and so does what others have compiled, which is half of their start. */
const guarded = (env) => ({
  ...env,
  ...(compiled !== undefined && env.NODE_COMPILE_CACHE === undefined && { NODE_COMPILE_CACHE: compiled }),
  COUNTERSIGN_TEST_GUARD: env.COUNTERSIGN_TEST_GUARD ?? folder,
  NODE_OPTIONS: (env.NODE_OPTIONS ?? '').includes(__filename) ? env.NODE_OPTIONS : `${env.NODE_OPTIONS ?? ''} ${flag}`.trim(),
})

const { spawn } = childProcess.ChildProcess.prototype
childProcess.ChildProcess.prototype.spawn = function (options) {
  const pairs = (options.envPairs ?? []).map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)])
  const env = guarded(Object.fromEntries(pairs))
  return spawn.call(this, { ...options, envPairs: Object.entries(env).map(([name, value]) => `${name}=${value}`) })
}
for (const name of ['spawnSync', 'execFileSync', 'execSync']) {
  const original = childProcess[name]
  childProcess[name] = (command, ...rest) => {
    const args = Array.isArray(rest[0]) ? [rest.shift()] : []
    const options = rest[0] ?? {}
    return original(command, ...args, { ...options, env: guarded(options.env ?? process.env) })
  }
}
syncBuiltinESMExports()
