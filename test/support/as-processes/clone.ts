// The folder and the PATH of a newcomer: a clone of the repository, and a Node of their own that is too old for TypeScript.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { root } from './cli.ts'

/** Everything of a clone but its history and data, so that pages can write files beside it. */
export function cloneIn(folder: string): string {
  const clone = join(folder, 'clone')
  mkdirSync(clone)
  const not = new Set(['.git', '.installing', 'data'])
  for (const name of readdirSync(root)) if (!not.has(name)) symlinkSync(join(root, name), join(clone, name))
  return clone
}

/** Runs npm, and refuses TypeScript and the command as Node 20 would. */
const OLD_NODE = `#!/bin/sh
case "$*" in --version | -v) echo v20.20.2; exit ;; esac
for word in "$@"; do
  case $word in
    -*) continue ;;
    *.ts) echo "TypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension \\".ts\\" for $word" >&2; exit 1 ;;
    */countersign.js | */countersign) echo 'countersign: Node.js 24 or newer is needed; this is 20.20.2 (https://nodejs.org)' >&2; exit 1 ;;
  esac
  break
done
exec '${process.execPath}' "$@"
`

/** Claude Code as far as its profile knows it: a prompt in, JSON lines out, the last of them with the result. */
const CLAUDE = `#!/bin/sh
prompt=$(cat)
case $prompt in *'good morning in French'*) said='Bonjour !' ;; *) said=$prompt ;; esac
printf '{"type":"system","subtype":"init"}\\n{"type":"result","is_error":false,"result":"%s"}\\n' "$said"
`

/** A PATH in which the first `node` is an old one, and which has a coding agent. */
export function pathWithOldNode(folder: string): string {
  const place = join(folder, 'old-node')
  mkdirSync(place)
  for (const [name, text] of Object.entries({ node: OLD_NODE, claude: CLAUDE })) {
    writeFileSync(join(place, name), text)
    chmodSync(join(place, name), 0o755)
  }
  return [place, process.env['PATH']].join(delimiter)
}

/** The environment without anything of ours or of the user's npm. Where packages come from, and how, is the machine's business. */
export function foreignEnv(home: string): Record<string, string> {
  const isOurs = (name: string): boolean =>
    /^COUNTERSIGN_|^NODE_(?!EXTRA_CA_CERTS)/.test(name) ||
    /^npm_(?!config_(https?_)?(registry|proxy|noproxy|cafile|strict_ssl)$)/i.test(name)
  const kept = Object.entries(process.env).filter(([name]) => !isOurs(name)) as [string, string][]
  const registry = spawnSync('npm', ['config', 'get', 'registry', '--loglevel=error'], { cwd: root, encoding: 'utf8' }).stdout.trim()
  return {
    ...Object.fromEntries(kept),
    HOME: home,
    npm_config_registry: registry,
    npm_config_cache: join(home, 'cache'),
    npm_config_update_notifier: 'false',
  }
}
