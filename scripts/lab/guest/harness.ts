// The harness of a guest of the lab: the daemon as an unprivileged process beside it, a client on its socket, and checks whose outcome goes to the
// console, where the host reads it.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { createHacpClient, type HacpClient } from '#protocols/hardware/client.ts'
import type { ShownStep } from '#protocols/hardware/daemon/schema.ts'

/** An unprivileged user, in the group that owns the devices. */
export const [USER, GROUP] = [1_000, 1_000]

export type Session = {
  readonly id: string
  readonly client: HacpClient
  /** The only step of a task, when that has ended. */
  step(tool: string, args?: object): Promise<ShownStep>
  /** The result of a step that must succeed. */
  result(tool: string, args?: object): Promise<Readonly<Record<string, unknown>>>
  close(): Promise<void>
}

export type Guest = {
  start(): Promise<void>
  kill(signal: NodeJS.Signals): Promise<number | null>
  session(): Promise<Session>
  check(name: string, run: () => Promise<unknown>): Promise<void>
  /** Says how it went, and ends the process. */
  end(): Promise<never>
  readonly events: () => Record<string, unknown>[]
}

const DATA = '/tmp/device'

export function guest(profile: object, policies: object): Guest {
  writeFileSync('/tmp/profile.json', JSON.stringify(profile))
  writeFileSync('/tmp/policies.json', JSON.stringify(policies))
  mkdirSync(DATA, { recursive: true })
  chownSync(DATA, USER, GROUP)
  let daemon: ChildProcess | null = null
  let failures = 0

  async function kill(signal: NodeJS.Signals): Promise<number | null> {
    const ended = once(daemon!, 'exit')
    daemon!.kill(signal)
    const [code] = (await ended) as [number | null]
    return code
  }

  return {
    async start() {
      const args = [
        '--data',
        DATA,
        '--board',
        'linux',
        '--profile',
        '/tmp/profile.json',
        '--policies',
        '/tmp/policies.json',
        '--log',
        'warn',
      ]
      daemon = spawn(process.execPath, ['/app/daemon/main.js', ...args], { uid: USER, gid: GROUP, stdio: ['ignore', 'pipe', 'inherit'] })
      let output = ''
      for await (const part of daemon.stdout!.setEncoding('utf8')) {
        output += part
        if (output.includes('countersign device ready')) return
      }
      throw new Error('the daemon did not start')
    },
    kill,
    async session() {
      const socket: Socket = connect(`${DATA}/device.sock`)
      await once(socket, 'connect')
      const client = createHacpClient('lab', '1.0.0', (line) => void socket.write(line))
      socket.on('data', (bytes: Uint8Array) => client.receive(bytes))
      socket.on('close', () => client.ended('the daemon has closed the connection')).on('error', () => undefined)
      const { session_id } = await client.open()
      const step = async (tool: string, args: object = {}): Promise<ShownStep> => (await client.run(session_id, tool, args)).steps[0]!
      return {
        id: session_id,
        client,
        step,
        async result(tool, args) {
          const { status, error, result } = await step(tool, args)
          if (status !== 'SUCCESS') throw new Error(`${tool}: ${error}`)
          return result as Record<string, unknown>
        },
        async close() {
          await client.call('session.close', { session_id })
          socket.destroy()
        },
      }
    },
    async check(name, run) {
      const began = performance.now()
      try {
        const details = await run()
        console.log(
          `##OK ${name} (${Math.round(performance.now() - began)} ms)${details === undefined ? '' : ` ${JSON.stringify(details)}`}`,
        )
      } catch (error) {
        failures++
        console.log(`##FAIL ${name}: ${(error as Error).stack ?? String(error)}`)
      }
    },
    events: () =>
      readFileSync(`${DATA}/audit.ndjson`, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    async end() {
      if (daemon?.exitCode === null) await kill('SIGKILL').catch(() => null)
      console.log(`##RC ${failures === 0 ? 0 : 1}`)
      process.exit(0)
    },
  }
}

export const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))
export const textOf = (path: string): string => readFileSync(path, 'utf8').trim()
