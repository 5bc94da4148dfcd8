// The image of deploy/Dockerfile, built from a local base without any registry, and a server run in it as a container engine would run it: another user,
// a read-only root, no capabilities, SIGTERM at the end. `npm run lab -- image`. It needs root and buildah; the base is Debian by debootstrap.
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, globSync, lstatSync, mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { mirror } from './debian.ts'

const root = join(import.meta.dirname, '..', '..')
const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'countersign-lab', 'image')
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
const PORT = 3402
const USER = 10_001
/** The bound of the image, including Node. */
const BYTES_MAX = 260_000_000
const READY_MS = 60_000

const NEEDED = ['buildah', 'debootstrap', 'unshare', 'chroot', 'setpriv']
const hasProgram = (name: string): boolean => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0

/** Why the image cannot be built here; null: it can. */
export function missingForImage(): string | null {
  if (process.getuid?.() !== 0) return 'building the image here needs root'
  const absent = NEEDED.filter((name) => !hasProgram(name))
  return absent.length === 0
    ? null
    : `the image needs ${absent.join(', ')} (on Debian: apt-get install --no-install-recommends ${absent.join(' ')})`
}

const loud = (command: string, args: readonly string[], env: Record<string, string> = {}): void =>
  void execFileSync(command, args, { stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, ...env } })
const quiet = (command: string, args: readonly string[], env: Record<string, string> = {}): string =>
  execFileSync(command, args, { encoding: 'utf8', env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] }).trim()

const engine = { STORAGE_DRIVER: 'vfs', BUILDAH_ISOLATION: 'chroot' }
const storage = ['--root', join(cache, 'storage'), '--runroot', join(cache, 'run')]
const buildah = (...args: string[]): string => quiet('buildah', [...storage, ...args], engine)

function bootstrap(): string {
  const base = join(cache, 'debian')
  if (existsSync(base)) return base
  const unfinished = `${base}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(dirname(base), { recursive: true })
  loud('debootstrap', ['--variant=minbase', '--include=ca-certificates,libatomic1', 'bookworm', unfinished, mirror()])
  // Like Debian's slim images: no documentation, and no package lists.
  for (const path of ['usr/share/doc', 'usr/share/man', 'usr/share/locale', 'usr/share/info', 'var/cache/apt', 'var/lib/apt/lists'])
    rmSync(join(unfinished, path), { recursive: true, force: true })
  renameSync(unfinished, base)
  return base
}

/** The two images that the Dockerfile begins from, under names of this machine. */
function buildBases(): { node: string; base: string } {
  const debian = bootstrap()
  const [base, node] = ['localhost/countersign-debian', 'localhost/countersign-node']
  const first = buildah('from', 'scratch')
  buildah('add', '-q', first, debian, '/')
  buildah('config', '--env', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', first)
  buildah('commit', '-q', '--rm', first, base)
  const second = buildah('from', base)
  buildah('add', '-q', second, realpathSync(process.execPath), '/usr/local/bin/node')
  const npm = dirname(dirname(realpathSync(quiet('sh', ['-c', 'command -v npm']))))
  buildah('add', '-q', second, npm, '/usr/local/lib/node_modules/npm')
  buildah('run', second, '--', 'ln', '-s', '../lib/node_modules/npm/bin/npm-cli.js', '/usr/local/bin/npm')
  // The build trusts the certificates of this machine, because a proxy of its network can have its own. The resulting image does not.
  if (existsSync(CERTIFICATES)) {
    buildah('add', '-q', second, CERTIFICATES, CERTIFICATES)
    buildah('config', '--env', `NODE_EXTRA_CA_CERTS=${CERTIFICATES}`, second)
  }
  buildah('commit', '-q', '--rm', second, node)
  return { node, base }
}

function buildImage(): string {
  const { node, base } = buildBases()
  const npmrc = join(homedir(), '.npmrc')
  const secret = existsSync(npmrc) ? ['--secret', `id=npmrc,src=${npmrc}`] : []
  const file = ['-f', join(root, 'deploy', 'Dockerfile'), '--ignorefile', join(root, 'deploy', 'Dockerfile.dockerignore')]
  const images = ['--build-arg', `NODE_IMAGE=${node}`, '--build-arg', `BASE_IMAGE=${base}`]
  loud(
    'buildah',
    [...storage, 'bud', '--format', 'docker', '--network', 'host', ...secret, ...file, ...images, '-t', 'countersign', root],
    engine,
  )
  return 'localhost/countersign'
}

/** The total size of the files, without following links. */
function bytesBelow(folder: string): number {
  let bytes = 0
  for (const entry of globSync('**/*', { cwd: folder, withFileTypes: true }))
    if (entry.isFile()) bytes += lstatSync(join(entry.parentPath, entry.name)).size
  return bytes
}

/** `unshare` with a command in the image: as its user, on a read-only root, with `data` at /data and nothing else of this machine but the network. */
const inside = (rootfs: string, data: string, command: readonly string[]): string[] => [
  '--mount',
  '--propagation',
  'private',
  'sh',
  '-c',
  `mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && mount -t tmpfs tmpfs "$0/tmp" && mount --bind '${data}' "$0/data" &&
    mount --rbind /proc "$0/proc" && mount --bind /dev/null "$0/dev/null" && mount --bind /dev/urandom "$0/dev/urandom" &&
    exec chroot "$0" setpriv --reuid=${USER} --regid=${USER} --clear-groups --bounding-set=-all --no-new-privs env -i "$@"`,
  rootfs,
  ...command,
]

type Described = {
  readonly Env: readonly string[]
  readonly Entrypoint: readonly string[]
  readonly Cmd: readonly string[]
  readonly Healthcheck: { Test: string[] }
}

/** The first tour in the running image, as one script, because separate commands would have separate /tmp folders. */
const TOUR = `
  countersign login --as user_owner
  countersign doctor
  countersign agent add Robin --id agent_robin --owner user_owner --pick agent.id
  robin=$(countersign key issue agent_robin --pick key)
  COUNTERSIGN_KEY=$robin countersign ask approve 'Ship it?' --details '{"version":"1.0"}' > /tmp/answer & asking=$!
  for _ in $(seq 60); do item=$(countersign inbox list --json --pick items.request_id 2>/dev/null | head -n 1); [ -z "$item" ] || break; sleep 1; done
  countersign inbox answer "$item" approve
  wait $asking
  cat /tmp/answer
  countersign audit verify`

/** Builds the image, runs a server in it, and returns the problems. */
export async function runImage(says: (message: string) => void): Promise<string[]> {
  says('image: building it')
  const image = buildImage()
  const container = buildah('from', image)
  const rootfs = buildah('mount', container)
  const data = mkdtempSync(join(tmpdir(), 'countersign-image-'))
  chownSync(data, USER, USER)
  try {
    const bytes = bytesBelow(rootfs)
    says(`image: ${(bytes / 1e6).toFixed(0)} MB of files`)
    return [
      ...(bytes > BYTES_MAX ? [`the image has ${bytes} bytes, more than ${BYTES_MAX}`] : []),
      ...(await serve(image, rootfs, data, says)),
    ]
  } finally {
    buildah('rm', container)
    rmSync(data, { recursive: true, force: true })
  }
}

async function serve(image: string, rootfs: string, data: string, says: (message: string) => void): Promise<string[]> {
  const { Docker } = JSON.parse(buildah('inspect', '--type', 'image', image)) as { Docker: { config: Described } }
  const { config } = Docker
  const env = [...config.Env, 'HOME=/tmp']
  const server = spawn('unshare', inside(rootfs, data, [...env, ...config.Entrypoint, ...config.Cmd]), {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exit = once(server, 'exit') as Promise<[number | null, string | null]>
  const problems: string[] = []
  try {
    await untilReady(server)
    const run = (...words: readonly string[]): string =>
      quiet('unshare', inside(rootfs, data, [...env, `COUNTERSIGN_URL=http://127.0.0.1:${PORT}`, ...words]))
    run(...config.Healthcheck.Test.slice(1))
    says(run('sh', '-euc', TOUR))
    const written = spawnSync('unshare', inside(rootfs, data, [...env, 'node', '-e', "require('fs').writeFileSync('/app/x', '')"]))
    if (written.status === 0) problems.push('the root of the image can be written')
  } catch (error) {
    problems.push((error as Error).message)
  }
  server.kill('SIGTERM')
  const [code, signal] = await exit
  if (code !== 0) problems.push(`the server ended with ${code ?? signal} at SIGTERM`)
  return problems
}

async function untilReady(server: ChildProcess): Promise<void> {
  const late = setTimeout(() => server.kill('SIGKILL'), READY_MS)
  let printed = ''
  for await (const part of server.stdout!) {
    printed += String(part)
    if (/^countersign ready /m.test(printed)) {
      server.stdout!.resume()
      return clearTimeout(late)
    }
  }
  throw new Error(`the server in the image did not get ready: ${printed}`)
}
