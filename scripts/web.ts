// The build of the page: `src/web` becomes `dist/web`, with `.br` and `.gz` beside each file. It is skipped, within a few milliseconds, as long as
// the sources, the SDK and the lock are what it was made of. `npm start`, `npm test` and `npm run pack` call it.
import { createHash } from 'node:crypto'
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const builtPage = join(root, 'dist', 'web')
/** Beside the files: what they were made of. */
export const STAMP = '.made-of'

/** The page, the SDK, and the folders that the SDK's checks of answers come from. */
const PATTERNS = [
  'src/web/**/*',
  'src/sdk/**/*.ts',
  'src/kernel/{codec,foreign}/*.ts',
  'src/kernel/log/{tree,bundle}/*.ts',
  'src/kernel/limits.ts',
  'scripts/verify-page.ts',
  'src/protocols/execution/{answering,asking}/*.ts',
]

/** Of all that the page is made of. */
export function sourceHash(): string {
  const names = globSync(PATTERNS, { cwd: root, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
  const hash = createHash('sha256')
  for (const name of [...names.toSorted(), join(root, 'package-lock.json'), import.meta.filename]) {
    hash
      .update(`${name.slice(root.length)}\0`)
      .update(readFileSync(name))
      .update('\0')
  }
  return hash.digest('hex')
}

function isCurrent(hash: string, target = builtPage): boolean {
  const stamp = join(target, STAMP)
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === hash
}

/** Moves a build to its place. Another process may have finished the same build in the meantime: then that one stays. */
export function place(fresh: string, target: string, hash: string): void {
  if (isCurrent(hash, target)) return
  rmSync(target, { recursive: true, force: true })
  try {
    renameSync(fresh, target)
  } catch (error) {
    if (!isCurrent(hash, target)) throw error
  }
}

/** Builds the page if it is not what the sources say; `says` is told once when it does. */
export async function buildWeb(says: (message: string) => void = () => {}): Promise<'built' | 'current'> {
  const hash = sourceHash()
  if (isCurrent(hash)) return 'current'
  const began = performance.now()
  says('building the page (once for each version of it)...')
  // Into a folder of its own first: a server that serves the old one never sees half of the new one, and two builds do not meet.
  const fresh = join(root, 'dist', `.web-${process.pid}`)
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { recursive: true })
  try {
    const { bundle } = await import('./web-bundle.ts')
    await bundle(join(root, 'src', 'web'), fresh, hash.slice(0, 12))
    writeFileSync(join(fresh, STAMP), hash)
    place(fresh, builtPage, hash)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
  says(`the page is built (${((performance.now() - began) / 1_000).toFixed(1)} s)`)
  return 'built'
}

if (import.meta.main) await buildWeb((message) => console.error(`countersign: ${message}`))
