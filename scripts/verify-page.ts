// The build of `verify.html`: one file with its script and its style, which may load nothing and send nothing.
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, type Plugin, type Rolldown } from 'vite'
import { limits } from '#kernel/limits.ts'

/** The bounds that the verifier uses instead of the table of all: a third of the file otherwise. */
const inlineLimits: Plugin = {
  name: 'inline limits',
  transform(code, id) {
    if (id.endsWith('/kernel/limits.ts')) return null
    const inlined = code.replaceAll(/\blimits\.(\w+)/g, (whole, name: string) => {
      const value = (limits as Readonly<Record<string, unknown>>)[name]
      return typeof value === 'number' ? String(value) : whole
    })
    return { code: inlined, map: null }
  },
}

const sourceOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

export async function buildVerifyPage(source: string, to: string): Promise<void> {
  const output = (await build({
    configFile: false,
    root: source,
    logLevel: 'warn',
    plugins: [inlineLimits],
    build: {
      write: false,
      target: 'es2024',
      reportCompressedSize: false,
      rolldownOptions: { checks: { bundlerTimings: false }, input: join(source, 'page.ts'), output: { format: 'iife' } },
    },
  })) as Rolldown.RolldownOutput
  const script = output.output[0].code.trim()
  // The end of a script element ends it inside of a string as well.
  if (script.includes('</')) throw new Error('the script of verify.html has "</" in it, which a page cannot hold')
  const style = readFileSync(join(source, 'verify.css'), 'utf8')
    .replaceAll(/\/\*.*?\*\/|\s+/gs, ' ')
    .trim()
  const policy = `default-src 'none'; script-src ${sourceOf(script)}; style-src ${sourceOf(style)}; base-uri 'none'; form-action 'none'`
  writeFileSync(join(to, 'verify.html'), pageOf(policy, style, script))
}

const pageOf = (policy: string, style: string, script: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="${policy}">
<meta name="viewport" content="width=device-width">
<title>Verify a bundle - Countersign</title>
<style>${style}</style>
</head>
<body>
<h1>Verify a bundle</h1>
<p>This page works without a network: the files stay on your device. The policy says whom to trust. Ask for it on another way than the bundle.</p>
<label>Bundle <input id="bundle" type="file"></label>
<label>Policy <input id="policy" type="file"></label>
<div id="verdict" role="status"></div>
<script>${script}</script>
</body>
</html>
`
