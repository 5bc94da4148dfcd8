// The browser of the tests: Debian's Chromium, as it is installed, or unpacked into a cache folder where nobody may install it.
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { chromium, type Browser } from 'playwright-core'

const SYSTEM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'countersign', 'chromium')
const unpacked = join(cache, 'usr', 'lib', 'chromium', 'chromium')

const WAY =
  'install it (Debian, Ubuntu: `apt-get install chromium`), or set COUNTERSIGN_CHROMIUM to the path of a Chromium or Chrome, and run the tests again'

const found = (): string | undefined =>
  [process.env['COUNTERSIGN_CHROMIUM'] ?? '', ...SYSTEM, unpacked].find((path) => path !== '' && existsSync(path))

const ran = (command: string, args: readonly string[], cwd?: string): boolean =>
  spawnSync(command, args, { stdio: 'ignore', timeout: 300_000, ...(cwd === undefined ? {} : { cwd }) }).status === 0

/** As root by the package manager; else the package and what it needs are unpacked where everybody may write. */
function fetchChromium(): void {
  const options = ['-o', 'DPkg::Lock::Timeout=300']
  if (process.getuid?.() === 0) {
    if (!ran('apt-get', [...options, 'install', '-y', '--no-install-recommends', 'chromium'])) {
      ran('apt-get', [...options, 'update'])
      ran('apt-get', [...options, 'install', '-y', '--no-install-recommends', 'chromium'])
    }
    return
  }
  mkdirSync(cache, { recursive: true })
  const listed = spawnSync(
    'apt-cache',
    [
      'depends',
      '--recurse',
      '--no-recommends',
      '--no-suggests',
      '--no-conflicts',
      '--no-breaks',
      '--no-replaces',
      '--no-enhances',
      'chromium',
    ],
    { encoding: 'utf8' },
  )
  const names = [...new Set((listed.stdout ?? '').split('\n').filter((line) => /^\w/.test(line)))]
  if (names.length === 0 || !ran('apt-get', ['download', ...names.filter((name) => !isInstalled(name))], cache)) return
  for (const file of globSync('*.deb', { cwd: cache })) ran('dpkg-deb', ['-x', file, cache], cache)
}
const isInstalled = (name: string): boolean => name !== 'chromium' && ran('dpkg', ['-s', name])

export function chromiumPath(): string {
  const known = found()
  if (known !== undefined) return known
  fetchChromium()
  const fetched = found()
  if (fetched !== undefined) return fetched
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

export async function openBrowser(): Promise<Browser> {
  const path = chromiumPath()
  const libraries = globSync('usr/lib/*-linux-gnu*', { cwd: cache }).map((folder) => join(cache, folder))
  const env = path === unpacked ? { ...process.env, LD_LIBRARY_PATH: libraries.join(':') } : process.env
  try {
    return await chromium.launch({ executablePath: path, args: flags, env })
  } catch (error) {
    throw new Error(`${path} does not start: ${(error as Error).message.split('\n', 1)[0]}; ${WAY}`)
  }
}
