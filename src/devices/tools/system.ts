// System telemetry, with units in the field names, and programs that the operator has named.
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync, statfsSync } from 'node:fs'
import { cpus, freemem, loadavg, networkInterfaces, totalmem, uptime } from 'node:os'
import type { Value } from '#kernel/log/store.ts'
import { DeviceError } from '../port.ts'
import { builtIn, invalidArgument, type Bench, type DeviceTool, type Execute, type Target } from './tool.ts'

/** The text of a file of the Linux kernel; null if it cannot be read. */
function textIn(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return null
  }
}
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).toSorted()
  } catch {
    return []
  }
}

const thermal: Execute = () => {
  const folder = '/sys/class/thermal'
  const zones = namesIn(folder).filter((name) => name.startsWith('thermal_zone'))
  return {
    result: {
      zones: zones.flatMap((zone) => {
        const milli = textIn(`${folder}/${zone}/temp`)
        return milli === null ? [] : [{ zone, type: textIn(`${folder}/${zone}/type`), celsius: Number(milli) / 1_000 }]
      }),
    },
  }
}

const hwmon: Execute = () => {
  const folder = '/sys/class/hwmon'
  const units: Readonly<Record<string, string>> = { temp: 'celsius', in: 'volts', fan: 'rpm', curr: 'amperes', power: 'watts' }
  const scales: Readonly<Record<string, number>> = { temp: 1_000, in: 1_000, fan: 1, curr: 1_000, power: 1_000_000 }
  return {
    result: {
      sensors: namesIn(folder).flatMap((chip) =>
        namesIn(`${folder}/${chip}`).flatMap((file) => {
          const found = /^(temp|in|fan|curr|power)(\d+)_input$/.exec(file)
          const value = found && textIn(`${folder}/${chip}/${file}`)
          if (!found || value === null) return []
          return [
            {
              chip: textIn(`${folder}/${chip}/name`),
              sensor: `${found[1]}${found[2]}`,
              [units[found[1]!]!]: Number(value) / scales[found[1]!]!,
            },
          ]
        }),
      ),
    },
  }
}

const net: Execute = () => ({
  result: {
    interfaces: Object.entries(networkInterfaces()).map(([name, addresses = []]) => ({
      name,
      addresses: addresses.map(({ address }) => address),
      received_bytes: Number(textIn(`/sys/class/net/${name}/statistics/rx_bytes`) ?? 0),
      sent_bytes: Number(textIn(`/sys/class/net/${name}/statistics/tx_bytes`) ?? 0),
    })),
  },
})

const OUTPUT_BYTES_MAX = 64 * 1024
/** The grace period between asking a program to end and killing it. */
const KILL_MS = 2_000
/** The time to read the last output after the program has exited. */
const LEFT_MS = 500

/** The configured program of that name. The caller can add arguments only if the operator allows it. */
const exec: Execute = async ({ programs }, { args, signal }) => {
  const program = programs.get(String(args['program']))!
  const [file, ...fixedArgs] = program.argv
  const child = spawn(file!, [...fixedArgs, ...((args['args'] as string[] | undefined) ?? [])], {
    shell: false,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C' },
    cwd: '/',
    // Its own process group: processes that it started end with it and keep no pipe open.
    detached: true,
  })
  const signalAll = (name: NodeJS.Signals): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name)
    } catch {
      // The whole group has ended.
    }
  }
  child.once('exit', () => {
    signalAll('SIGKILL')
    // Do not wait for a process that left the group.
    setTimeout(() => [child.stdout, child.stderr].forEach((stream) => stream.destroy()), LEFT_MS).unref()
  })
  const parts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => (parts[name] = (parts[name] + text).slice(0, OUTPUT_BYTES_MAX)))
  let patience: NodeJS.Timeout | undefined
  const end = (): void => {
    signalAll('SIGTERM')
    patience = setTimeout(signalAll, KILL_MS, 'SIGKILL')
  }
  signal.addEventListener('abort', end, { once: true })
  const code = await new Promise<number | null>((done, failed) => {
    child.once('error', (error) => failed(new DeviceError('io', `the program cannot be started: ${error.message}`)))
    child.once('close', done)
  }).finally(() => {
    clearTimeout(patience)
    signal.removeEventListener('abort', end)
  })
  return { result: { code, ...parts } }
}

function programTarget(args: Value, { programs }: Bench): Target {
  const program = programs.get(String(args['program']))
  if (!program) throw invalidArgument('program', 'program must be a name from `proc.programs` of the operator')
  if (args['args'] !== undefined && !program.takesArgs)
    throw invalidArgument('args', 'args must be absent: the operator allows none for this program')
  return { resource: null, target: `program ${String(args['program'])}` }
}

export const systemTools: readonly DeviceTool[] = [
  builtIn('hw.info', ({ board, device_id }) => ({ result: { board: board.name, model: board.profile.model, device_id } })),
  builtIn('sys.cpuinfo', () => {
    const all = cpus()
    return { result: { model: all[0]?.model ?? 'unknown', cores: all.length, mhz: all[0]?.speed ?? 0, arch: process.arch } }
  }),
  builtIn('sys.meminfo', () => {
    const available = /^MemAvailable:\s+(\d+)/m.exec(textIn('/proc/meminfo') ?? '')
    const free = freemem()
    return { result: { total_bytes: totalmem(), free_bytes: free, available_bytes: available ? Number(available[1]) * 1_024 : free } }
  }),
  builtIn('sys.thermal', thermal),
  builtIn('sys.uptime', ({ startedAt }) => ({
    result: { system_seconds: Math.round(uptime()), daemon_seconds: Math.round((Date.now() - startedAt) / 1_000) },
  })),
  builtIn('sys.load', () => {
    const [load_1m = 0, load_5m = 0, load_15m = 0] = loadavg()
    return { result: { load_1m, load_5m, load_15m } }
  }),
  builtIn('sys.disk', ({ dataFolder }) => {
    const { bsize, blocks, bavail } = statfsSync(dataFolder)
    return { result: { path: dataFolder, total_bytes: bsize * blocks, free_bytes: bsize * bavail } }
  }),
  builtIn('sys.net', net),
  builtIn('sys.hwmon', hwmon),
  builtIn('proc.exec', { target: programTarget, execute: exec }),
]
