// `npm run pack`: the package as others install it. Node strips types nowhere under node_modules, so it holds JavaScript: every file
// with its types blanked out, imports that end in .js, and declarations for those who write TypeScript.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, cpSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { basename, dirname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { operationTypes } from './sdk-types.ts'
import { buildWeb, STAMP } from './web.ts'

const root = join(import.meta.dirname, '..')

/** The bill of materials that lies beside the tarball. */
export const BILL = 'sbom.cdx.json'

type Manifest = Record<string, unknown> & {
  readonly bin: Record<string, string>
  readonly exports: Record<string, string>
  readonly imports: Record<string, string>
}

/** `./src/kernel/*.ts` as it is called in the package. */
const built = (path: string, extension = '.js'): string => path.replace(/^(\.{1,2}\/)src\//, '$1dist/').replace(/\.ts$/, extension)

/** An import by path ends in .js; one by `#` is for the manifest. */
const renamed = (code: string): string =>
  code.replaceAll(
    /(\bfrom\s*|\bimport\s*\(?\s*)(['"])(\.{1,2}\/[^'"\n]+\.ts)\2/g,
    (_, message: string, quote: string, path: string) => message + quote + built(path) + quote,
  )

/** JavaScript with the same lines and columns. */
export const javascriptOf = (typescript: string): string => renamed(stripTypeScriptTypes(typescript, { mode: 'strip' }))

/** The words that users of the package need; nothing of how it is developed. */
export function manifestOf({ bin, exports, imports, ...all }: Manifest): Record<string, unknown> {
  const { name, version, description, license, type, engines, dependencies } = all
  const both = (path: string) => ({ types: built(path, '.d.ts'), default: built(path) })
  const ownImports = Object.entries(imports).filter(([, path]) => path.startsWith('./src/'))
  return {
    name,
    version,
    description,
    license,
    type,
    engines,
    bin,
    exports: Object.fromEntries(Object.entries(exports).map(([from, path]) => [from, both(path)])),
    imports: Object.fromEntries(ownImports.map(([from, path]) => [from, both(path)])),
    dependencies,
  }
}

/** Without keeping the process busy: a run of tests that packs is not silent meanwhile. */
async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err, [status]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed: ${out}${err}`)
  return out
}

/** Writes the package's folder. */
function build(folder: string): void {
  // The page is no module of the package: it goes along as it was built.
  for (const path of globSync('src/**/*.ts', { cwd: root, exclude: ['src/web/**'] })) {
    const to = join(folder, built(`./${path}`))
    mkdirSync(dirname(to), { recursive: true })
    writeFileSync(to, javascriptOf(readFileSync(join(root, path), 'utf8')))
  }
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
  for (const path of Object.values(manifest.bin)) {
    const to = join(folder, path)
    mkdirSync(dirname(to), { recursive: true })
    writeFileSync(to, javascriptOf(readFileSync(join(root, path), 'utf8')))
    chmodSync(to, 0o755)
  }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifestOf(manifest), null, 2)}\n`)
  for (const name of ['LICENSE', 'README.md', 'CHANGELOG.md'])
    if (existsSync(join(root, name))) copyFileSync(join(root, name), join(folder, name))
}

/** The page in the browser, built and compressed. */
async function addPage(folder: string): Promise<void> {
  await buildWeb()
  cpSync(join(root, 'dist', 'web'), join(folder, 'dist', 'web'), { recursive: true, filter: (path) => basename(path) !== STAMP })
}

/** Types for users of the SDK: its own, with those of the operations written out, so that not even the compiler reads the protocols here. */
async function declare(folder: string): Promise<void> {
  const sources = join(folder, 'sources')
  cpSync(join(root, 'src'), join(sources, 'src'), { recursive: true })
  copyFileSync(join(root, 'package.json'), join(sources, 'package.json'))
  writeFileSync(join(sources, 'src', 'sdk', 'operations.ts'), operationTypes())
  const config = join(sources, 'tsconfig.json')
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    rootDir: join(sources, 'src'),
    outDir: join(folder, 'dist'),
  }
  writeFileSync(config, JSON.stringify({ extends: join(root, 'tsconfig.json'), compilerOptions, include: [join(sources, 'src', 'sdk')] }))
  await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', config], root)
  rmSync(sources, { recursive: true })
  for (const path of globSync('dist/**/*.d.ts', { cwd: folder })) {
    writeFileSync(join(folder, path), renamed(readFileSync(join(folder, path), 'utf8')))
  }
}

/** Builds and packs; returns the tarball. */
export async function pack(to: string): Promise<string> {
  // A folder of its own, so that two can pack at a time; within the clone, so that TypeScript finds the types of Node.
  const folder = mkdtempSync(join(root, 'dist-'))
  try {
    build(folder)
    await addPage(folder)
    await declare(folder)
    mkdirSync(to, { recursive: true })
    const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', to]
    const packed = JSON.parse(await run('npm', args, folder)) as { filename: string }[]
    // What the package runs with, in the versions of the lock file.
    const bill = ['sbom', '--sbom-format', 'cyclonedx', '--omit', 'dev', '--package-lock-only']
    writeFileSync(join(to, BILL), await run('npm', bill, root))
    return join(to, packed[0]!.filename)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const to = resolve(process.argv[2] ?? '.')
  console.log(await pack(to))
}
