// The built files of the page: beside the sources of a clone, or in the package.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import type { PageFile, PageFiles } from '#bindings/http/browser/page.ts'

/** The same place in a clone (src/apps/server) and in the package (dist/apps/server). */
const folder = join(import.meta.dirname, '..', '..', '..', 'dist', 'web')

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
  '.webmanifest': 'application/manifest+json',
}

/** It has its script in itself, under a policy of its own, so it is served apart from the page. */
const VERIFY = 'verify.html'

/** Null: the page was not built. */
export const readVerifyPage = (): Buffer | null => (existsSync(join(folder, VERIFY)) ? readFileSync(join(folder, VERIFY)) : null)

export const isPageBuilt = (): boolean => existsSync(join(folder, 'index.html'))

/** null: the page was not built, or is switched off. Each file is read when it is first asked for. */
export function readPage(web: 'on' | 'off'): PageFiles | null {
  if (web === 'off' || !isPageBuilt()) return null
  const names = globSync('**/*', { cwd: folder }).map((name) => name.replaceAll('\\', '/'))
  const known = new Set(names)
  return new Map(
    names
      .filter((name) => Object.hasOwn(types, extname(name)) && name !== VERIFY)
      .map((name) => [`/${name}`, fileOf(name, known)] as [string, PageFile]),
  )
}

function fileOf(name: string, known: ReadonlySet<string>): PageFile {
  const held = new Map<string, Buffer>()
  const read = (path: string): Buffer => {
    const bytes = held.get(path) ?? readFileSync(join(folder, path))
    held.set(path, bytes)
    return bytes
  }
  return {
    type: types[extname(name)]!,
    isFixed: name.startsWith('assets/'),
    bytes: () => read(name),
    compressed(coding) {
      const path = `${name}.${coding === 'br' ? 'br' : 'gz'}`
      return known.has(path) ? read(path) : null
    },
  }
}
