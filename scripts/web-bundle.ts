// The bundle of the page, by Vite: hashed names, one chunk for each further page, no inline code, and every file compressed beside itself.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import react from '@vitejs/plugin-react'
import { build } from 'vite'
import { buildVerifyPage } from './verify-page.ts'

const COMPRESSED = /\.(?:js|css|html|svg|webmanifest)$/

/** `version` names the cache of this build in the browser. */
export async function bundle(source: string, to: string, version: string): Promise<void> {
  await build({
    configFile: false,
    root: source,
    base: '/',
    logLevel: 'warn',
    plugins: [react()],
    define: { __PAGE_VERSION__: JSON.stringify(version) },
    build: {
      outDir: to,
      emptyOutDir: false,
      target: 'es2024',
      assetsInlineLimit: 0, // the policy of the page allows no data: addresses
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
      rolldownOptions: {
        checks: { bundlerTimings: false }, // timings do not help users who start the server
        input: { page: join(source, 'index.html'), install: join(source, 'install.html'), worker: join(source, 'offline', 'worker.ts') },
        output: {
          // A service worker is known by its address: it is the one script whose name stays.
          entryFileNames: ({ name }) => (name === 'worker' ? 'worker.js' : 'assets/[name]-[hash].js'),
          chunkFileNames: 'assets/[name]-[hash].js',
          assetFileNames: 'assets/[name]-[hash][extname]',
        },
      },
    },
  })
  await buildVerifyPage(join(source, 'verify'), to)
  for (const name of globSync('**/*', { cwd: to })) if (COMPRESSED.test(name)) compress(join(to, name))
}

function compress(path: string): void {
  const bytes = readFileSync(path)
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }))
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
  writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params }))
}
