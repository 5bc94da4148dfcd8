// The browser of the tests: Debian's Chromium headless shell, or else the full browser. Either one is used as installed, or unpacked into a
// cache folder if the user cannot install packages. Opening a page in the headless shell takes a fifth of the CPU time, because the full
// browser also loads the pages of its own invisible windows: 2.3 s instead of 11 s for eight people with four pages each.
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'

const SHELL = 'chromium-headless-shell'
const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'countersign', 'chromium')
const unpacked = (name: string): string => join(cache, 'usr', 'lib', 'chromium', name)
const SHELLS = [`/usr/lib/chromium/${SHELL}`, unpacked(SHELL)]
const WHOLE = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', unpacked('chromium')]

export const CHROMIUM_VARIABLE = 'COUNTERSIGN_CHROMIUM'
const WAY =
  'install it (Debian: `apt-get install chromium-headless-shell`), or set COUNTERSIGN_CHROMIUM to the path of a Chromium or Chrome, and run the tests again'

const firstOf = (paths: readonly string[]): string | undefined => paths.find((path) => path !== '' && existsSync(path))

const ran = (command: string, args: readonly string[], cwd?: string): boolean =>
  spawnSync(command, args, { stdio: 'ignore', timeout: 300_000, ...(cwd === undefined ? {} : { cwd }) }).status === 0

/** Root installs the package with the package manager; other users unpack it and its dependencies into the cache folder. */
function fetchPackage(name: string): void {
  console.error(`fetching ${name}, the browser of the tests (once)...`)
  if (process.getuid?.() === 0) {
    const install = ['-o', 'DPkg::Lock::Timeout=300', 'install', '-y', '--no-install-recommends', name]
    if (!ran('apt-get', install) && ran('apt-get', ['update'])) ran('apt-get', install)
    return
  }
  mkdirSync(cache, { recursive: true })
  const listed = spawnSync(
    'apt-cache',
    ['depends', '--recurse', '--no-recommends', '--no-suggests', '--no-conflicts', '--no-breaks', '--no-replaces', '--no-enhances', name],
    { encoding: 'utf8' },
  )
  const names = [...new Set((listed.stdout ?? '').split('\n').filter((line) => /^\w/.test(line)))]
  if (names.length === 0 || !ran('apt-get', ['download', ...names.filter((one) => one.startsWith('chromium') || !isInstalled(one))], cache))
    return
  for (const file of globSync('*.deb', { cwd: cache })) ran('dpkg-deb', ['-x', file, cache], cache)
}
const isInstalled = (name: string): boolean => ran('dpkg', ['-s', name])

function fetched(name: string, paths: readonly string[]): string | undefined {
  fetchPackage(name)
  return firstOf(paths)
}

/** `whole`: with the parts that people see, for what is measured as they have it. */
export function chromiumPath(kind: 'shell' | 'whole' = 'shell'): string {
  const known =
    firstOf([process.env[CHROMIUM_VARIABLE] ?? '']) ??
    (kind === 'shell' ? (firstOf(SHELLS) ?? fetched(SHELL, SHELLS)) : undefined) ??
    firstOf(WHOLE) ??
    fetched('chromium', WHOLE)
  if (known !== undefined) return known
  throw new Error(`no Chromium was found, and it could not be fetched: ${WAY}`)
}

const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--force-color-profile=srgb',
]

export async function openBrowser(kind: 'shell' | 'whole' = 'shell'): Promise<Browser> {
  const path = chromiumPath(kind)
  const libraries = globSync('usr/lib/*-linux-gnu*', { cwd: cache }).map((folder) => join(cache, folder))
  // A browser that is closed while it writes leaves files behind. They go with the process of the test.
  const temporary = mkdtempSync(join(tmpdir(), 'browser-'))
  process.once('exit', () => rmSync(temporary, { recursive: true, force: true, maxRetries: 5 }))
  const env = {
    ...process.env,
    TMPDIR: temporary,
    ...(path.startsWith(cache) ? { LD_LIBRARY_PATH: libraries.join(':') } : {}),
  }
  const { chromium } = await import('playwright-core')
  try {
    return await chromium.launch({ executablePath: path, args: flags, env })
  } catch (error) {
    throw new Error(`${path} does not start: ${(error as Error).message.split('\n', 1)[0]}; ${WAY}`)
  }
}
