// Booting a machine of the lab: QEMU as a process, the far ends of its serial ports, and the outcome of its checks.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Machine } from './machines.ts'

export type Outcome = { readonly ok: boolean; readonly passed: number; readonly failed: readonly string[]; readonly info: string }

const BOOT_MS_MAX = 480_000

export async function boot(machine: Machine, says: (message: string) => void): Promise<Outcome> {
  const undo: (() => unknown)[] = []
  for (const name of ['far.sock', 'host.sock', 'control.sock']) rmSync(join(machine.folder, name), { force: true })
  if (machine.name === 'x86') undo.push(await invertingPeer(join(machine.folder, 'far.sock')))
  const qemu = spawn(machine.program, machine.args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const timer = setTimeout(() => qemu.kill('SIGKILL'), BOOT_MS_MAX)
  let errors = ''
  qemu.stderr.setEncoding('utf8').on('data', (part: string) => (errors += part))
  qemu.once('error', (error) => (errors += error.message))
  if (machine.name === 'pi') void servePi(machine.folder).catch((error: Error) => (errors += error.message))
  const failed: string[] = []
  const console: string[] = []
  let [passed, code, info] = [0, '', '']
  for await (const raw of createInterface({ input: qemu.stdout })) {
    const line = raw.replaceAll('\r', '')
    console.push(line)
    const [, word, rest = ''] = /^##(OK|FAIL|INFO|RC) (.*)/.exec(line) ?? []
    if (word === 'OK') passed++
    if (word === 'FAIL') failed.push(rest)
    if (word === 'INFO') info = rest
    if (word === 'OK' || word === 'FAIL') says(`  ${word === 'OK' ? 'ok    ' : 'FAILED'} ${rest}`)
    if (word !== 'RC') continue
    code = rest
    // Where the machine cannot switch itself off.
    setTimeout(() => qemu.kill('SIGTERM'), 5_000).unref()
  }
  clearTimeout(timer)
  if (qemu.exitCode === null && qemu.signalCode === null) await once(qemu, 'exit')
  for (const step of undo) await step()
  if (code !== '0') says([...console.slice(-40), errors.trim()].join('\n'))
  return { ok: code === '0' && failed.length === 0, passed, failed, info }
}

/** Each byte comes back inverted, so that no echo on the way passes for the far end. */
async function invertingPeer(path: string): Promise<() => void> {
  const server = createServer((socket) => {
    socket.on('data', (bytes: Buffer) => socket.write(Buffer.from(bytes.map((byte) => byte ^ 0xff)))).on('error', () => undefined)
  })
  server.listen(path)
  await once(server, 'listening')
  return () => server.close()
}

async function reach(path: string): Promise<Socket> {
  for (let attempt = 0; ; attempt++) {
    const socket = connect(path)
    try {
      await once(socket, 'connect')
      return socket.on('error', () => undefined)
    } catch (error) {
      if (attempt === 200) throw error
      await sleep(50)
    }
  }
}

/** The register that says which level each of the first 32 pins has. */
const PIN_LEVELS = 0x3f20_0034

/** Answers the guest over its serial port: what the pins are, how warm the sensor is. */
async function servePi(folder: string): Promise<void> {
  const control = await reach(join(folder, 'control.sock'))
  const answers = createInterface({ input: control })[Symbol.asyncIterator]()
  async function ask(execute: string, given: object = {}): Promise<unknown> {
    control.write(`${JSON.stringify({ execute, arguments: given })}\n`)
    for (;;) {
      const { value, done } = await answers.next()
      if (done) return null
      const answer = JSON.parse(value) as { return?: unknown; error?: { desc: string } }
      if (answer.error) throw new Error(answer.error.desc)
      if ('return' in answer) return answer.return
    }
  }
  await answers.next()
  await ask('qmp_capabilities')
  const host = await reach(join(folder, 'host.sock'))
  for await (const line of createInterface({ input: host })) {
    const [word, value] = line.trim().split(' ')
    if (word === 'ping') host.write('pong\n')
    if (word === 'pins') {
      const shown = await ask('human-monitor-command', { 'command-line': `xp /1wx ${PIN_LEVELS}` })
      host.write(`${String(shown).split(':')[1]!.trim()}\n`)
    }
    if (word === 'temp') {
      await ask('qom-set', { path: '/machine/peripheral/sensor', property: 'temperature', value: Number(value) })
      host.write('ok\n')
    }
  }
}
