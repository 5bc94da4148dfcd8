// docs/protocols/hardware.md, word for word: the daemon is started and used as its first page says, in a clone of somebody's own terminal.
import { equal, match, ok } from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/protocols/hardware.md'), 'utf8')
const [start, use] = [...page.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, block]) => block!.trim())

const prints: readonly (readonly [command: string, printed: RegExp])[] = [
  ['device tools', /^gpio\.set +risk 2 +Set a GPIO line to 0 or 1\.$/m],
  ['gpio.get', /"line": 17,\s+"value": 0/],
  ['gpio.set', /"line": 17,\s+"value": 1/],
  ['sensor.read', /"value": 25,\s+"unit": "Cel"/],
  ['device history', /SUCCESS +task_\w+ +sensor\.read/],
  ['audit verify', /^in order: \d+ lines/],
]

test('the page about hardware can be followed', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'countersign-page-'))
  const env = { PATH: `${join(root, 'bin')}:${process.env['PATH']}`, HOME: process.env['HOME'] }
  const daemon = spawn('sh', ['-c', `exec ${start}`], {
    cwd,
    env: { ...env, COUNTERSIGN_LOG: 'warn' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    let said = ''
    for await (const part of daemon.stdout.setEncoding('utf8')) if ((said += part).includes('\n')) break
    match(said, /^countersign device ready \{"device_id":"dev_/)
    const commands = use!.split('\n')
    equal(commands.length, prints.length)
    for (const [i, command] of commands.entries()) {
      const [message, printed] = prints[i]!
      ok(command.includes(message), command)
      const out = await new Promise<string>((done, failed) => {
        execFile('sh', ['-c', command], { cwd, env }, (error, stdout, stderr) => (error ? failed(new Error(stderr)) : done(stdout)))
      })
      match(out, printed)
    }
  } finally {
    daemon.kill('SIGTERM')
    await once(daemon, 'exit')
    rmSync(cwd, { recursive: true, force: true })
  }
  equal(daemon.exitCode, 0)
})
