// Debian packages for the lab, of either architecture, downloaded with their signatures checked and unpacked into a folder of the cache. The
// packages of this machine are not touched: apt gets a root of its own.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export type Arch = 'amd64' | 'arm64'
export type Root = {
  /** The newest kernel that is on offer, such as `7.2.12+deb13-amd64`. */
  kernel(): string
  /** Downloads what is not there yet; answers the file of each package. */
  fetch(...names: readonly string[]): string[]
}

const KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'
const text = (program: string, args: readonly string[], cwd?: string): string =>
  execFileSync(program, args, { encoding: 'utf8', cwd, stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 64 * 1024 * 1024 })

/** The mirror that this machine uses already. */
export function mirror(): string {
  const found = text('apt-get', ['indextargets', '--format', '$(REPO_URI)'])
    .split('\n')
    .filter((uri) => uri !== '' && !uri.includes('security'))
  return found[0] ?? 'http://deb.debian.org/debian'
}

/** `suites`: releases that packages may come from, the preferred one last. */
export function aptRoot(folder: string, arch: Arch, suites: readonly string[]): Root {
  if (!existsSync(KEYS)) throw new Error('the lab needs a Debian machine: apt, dpkg and the keys of the Debian archive')
  const debs = join(folder, 'debs')
  for (const part of ['state/lists/partial', 'cache/archives/partial', 'debs']) mkdirSync(join(folder, part), { recursive: true })
  writeFileSync(
    join(folder, 'sources.list'),
    suites.map((suite) => `deb [signed-by=${KEYS} arch=${arch}] ${mirror()} ${suite} main\n`).join(''),
  )
  writeFileSync(join(folder, 'status'), '')
  const options = [
    `Dir::Etc::sourcelist=${folder}/sources.list`,
    'Dir::Etc::sourceparts=-',
    `Dir::State=${folder}/state`,
    `Dir::State::status=${folder}/status`,
    `Dir::Cache=${folder}/cache`,
    'APT::Sandbox::User=root',
    `APT::Architecture=${arch}`,
    `APT::Architectures::=${arch}`,
    `APT::Default-Release=${suites.at(-1)!}`,
  ].flatMap((option) => ['-o', option])
  let isUpdated = false
  function update(): void {
    if (!isUpdated) text('apt-get', ['-qq', ...options, 'update'])
    isUpdated = true
  }
  const fileOf = (name: string): string | undefined => readdirSync(debs).find((file) => file.startsWith(`${name}_`))
  return {
    kernel() {
      update()
      const shown = text('apt-cache', [...options, 'show', `linux-image-${arch}`])
      const versions = [...shown.matchAll(/^Depends:.*?linux-image-([^ ,]+)/gm)].map(([, version]) => version!)
      return versions.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1)!
    },
    fetch(...names) {
      const missing = names.filter((name) => fileOf(name) === undefined)
      if (missing.length > 0) {
        update()
        text('apt-get', ['-qq', ...options, 'download', ...missing], debs)
      }
      return names.map((name) => join(debs, fileOf(name)!))
    },
  }
}

export const unpack = (deb: string, into: string): void => void text('dpkg-deb', ['-x', deb, into])

/** Some files of a large package. */
export function unpackSome(deb: string, into: string, files: readonly string[]): void {
  const archive = join(into, '.package.tar')
  text('sh', [
    '-c',
    'dpkg-deb --fsys-tarfile "$1" > "$2" && tar -x -f "$2" -C "$3" "${@:4}"'.replace('"${@:4}"', '$4'),
    'sh',
    deb,
    archive,
    into,
    files.join(' '),
  ])
  rmSync(archive)
}

/** A package of npm for another machine than this one, unpacked. */
export function npmPackage(name: string, version: string, into: string): void {
  const folder = join(into, name)
  if (existsSync(join(folder, 'package.json'))) return
  mkdirSync(folder, { recursive: true })
  const packed = text('npm', ['pack', '--silent', `${name}@${version}`], folder)
    .trim()
    .split('\n')
    .at(-1)!
  text('tar', ['-x', '-z', '--strip-components=1', '-f', packed], folder)
  rmSync(join(folder, packed))
}
