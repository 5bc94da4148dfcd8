// The hardware lab: the daemon on real Linux kernels without any hardware, in QEMU. An x86 machine with simulated chips, and a Raspberry Pi 3B with
// its own pin controller, bus and serial port. `npm run lab` runs both, `npm run lab -- x86` or `pi` one of them, and `npm run lab -- image` builds the
// image of deploy/Dockerfile and runs the first tour in it.
import { spawnSync } from 'node:child_process'
import { boot, type Outcome } from './lab/boot.ts'
import { missingForImage, runImage } from './lab/container.ts'
import { assemble, isCached, prepare, type MachineName } from './lab/machines.ts'

const hasProgram = (name: string): boolean => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0
const NEEDED = ['qemu-system-x86_64', 'xz', 'strip', 'dpkg-deb', 'apt-get']
const HELP = 'apt-get install --no-install-recommends qemu-system-x86 xz-utils binutils'

/** Why the lab cannot run here; null: it can. */
export function missing(): string | null {
  const absent = NEEDED.filter((name) => !hasProgram(name))
  return absent.length === 0 ? null : `the lab needs ${absent.join(', ')} (on Debian: ${HELP})`
}

export async function runMachine(name: MachineName, says: (message: string) => void): Promise<Outcome> {
  prepare(name, says)
  says(`${name}: building what it boots`)
  const machine = await assemble(name)
  says(`${name}: booting`)
  return boot(machine, says)
}
export { isCached }

async function labImage(): Promise<number> {
  const problem = missingForImage()
  const problems = problem === null ? await runImage(console.log) : [problem]
  for (const text of problems) console.error(`image: ${text}`)
  return problems.length === 0 ? 0 : 1
}

async function main(args: readonly string[]): Promise<number> {
  if (args.length === 1 && args[0] === 'image') return labImage()
  const unknown = args.find((name) => name !== 'x86' && name !== 'pi')
  if (unknown !== undefined) {
    console.error(`there is no machine ${unknown}: x86, pi or image`)
    return 2
  }
  const problem = missing()
  if (problem !== null) {
    console.error(problem)
    return 1
  }
  const names = (args.length === 0 ? ['x86', 'pi'] : args) as MachineName[]
  let isGood = true
  for (const name of names) {
    const began = performance.now()
    const { ok, passed, failed, info } = await runMachine(name, console.log)
    console.log(`${name}: ${info}; ${passed} passed, ${failed.length} failed, ${Math.round((performance.now() - began) / 1_000)} s`)
    isGood &&= ok
  }
  return isGood ? 0 : 1
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2))
