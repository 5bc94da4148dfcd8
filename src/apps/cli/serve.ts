// `countersign up`, handled before any other module is loaded: a process that runs for months must not keep the CLI in memory.

/**
 * A nursery of 16 MB, a heap that grows by half, one helper thread and one heap of the C library keep the server small under load; scripts/serve says the same. Objects
 * that live for the length of a call must not be taken for lasting ones: V8 would make all of them in the old space from then on, at twice
 * the cost.
 */
export const memoryFlags: readonly string[] = [
  '--max-semi-space-size=16',
  '--v8-pool-size=1',
  '--heap-growing-percent=50',
  '--no-allocation-site-pretenuring',
]
export const memoryEnv: Readonly<Record<string, string>> = { MALLOC_ARENA_MAX: '1' }

/** The words for the device daemon, without `device up`. */
export function wordsForDevice(argv: readonly string[]): string[] | null {
  const at = argv.indexOf('device')
  const before = argv.slice(0, Math.max(0, at))
  const isFirst = at === 0 || (at === 2 && before[0] === '--data') || (at === 1 && before[0]!.startsWith('--data='))
  return isFirst && argv[at + 1] === 'up' ? [...before, ...argv.slice(at + 2)] : null
}

/** The words for the server, without `up`. The server parses its own options. */
export function wordsForUp(argv: readonly string[]): string[] | null {
  const at = argv.indexOf('up')
  const before = argv.slice(0, Math.max(0, at))
  // Only --data is allowed before `up`: it means the same to the CLI and the server.
  const isFirst = at === 0 || (at === 2 && before[0] === '--data') || (at === 1 && before[0]!.startsWith('--data='))
  return isFirst ? [...before, ...argv.slice(at + 1)] : null
}

/** The words for a witness, without `witness`. */
export const wordsForWitness = (argv: readonly string[]): string[] | null => (argv[0] === 'witness' ? argv.slice(1) : null)

/** Resolves when the witness runs; the process then ends by a signal. */
export async function runWitness(words: readonly string[]): Promise<void> {
  const { main } = await import('../witness/main.ts')
  await main(words)
}

const isTuned = (): boolean => /max[-_]semi[-_]space[-_]size/.test([...process.execArgv, process.env['NODE_OPTIONS']].join(' '))

/** Resolves when the daemon runs; the process then ends by a signal. */
export async function deviceUp(words: readonly string[]): Promise<void> {
  tune()
  const { main } = await import('../device/main.ts')
  await main(words)
}

/** Resolves when the server runs; the process then ends by a signal. */
export async function up(words: readonly string[]): Promise<void> {
  tune()
  const { main } = await import('../server/main.ts')
  const client = process.env['npm_command'] === 'exec' ? 'npx countersign' : 'countersign'
  await main(words, { server: `${client} up`, client })
}

function tune(): void {
  // Node sizes its memory before the first line of a program runs, so the process becomes one with the flags: the same id, the same
  // terminal, and no process in between that would have to pass signals on.
  if (!isTuned() && process.platform !== 'win32')
    process.execve!(process.execPath, [process.execPath, ...memoryFlags, ...process.execArgv, ...process.argv.slice(1)], {
      ...memoryEnv,
      ...process.env,
    })
}
