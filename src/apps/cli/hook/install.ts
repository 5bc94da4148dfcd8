// `hook install`: writes an agent's settings so that its tools ask Countersign, shows the changes, and takes them back with --undo.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { limits } from '#kernel/limits.ts'
import { dialects, type AgentName, type Late } from '#bridges/hooks/dialects.ts'
import { CliError, exits, usage } from '../exit-codes.ts'
import { changesBetween, hunksOf } from '../output/diff.ts'
import { escapeControl } from '../output/safe-text.ts'
import { managedHome } from '../gate/agent-keys.ts'
import { dropAgentKey, keepAgentKey } from '../gate/keep-key.ts'
import type { Context } from '../derive/command.ts'
import { editsOf, type FileEdit, type Plan } from './installed-files.ts'
import { forgetOriginal, keepOriginal, originalOf } from '../gate/original-files.ts'

export type InstallWishes = {
  readonly agent: AgentName
  readonly as: string | undefined
  readonly wait: string | undefined
  readonly late: string | undefined
  readonly isManaged: boolean
  readonly isUndo: boolean
}

/** The hook runs as the user of the agent: the group of the user who called sudo can read the key, and only root can change it. */
function shareKey(file: string, group: string | undefined): void {
  for (const folder of [dirname(dirname(file)), dirname(file)]) chmodSync(folder, 0o755)
  if (group === undefined || !/^\d+$/.test(group)) return
  chownSync(file, 0, Number(group))
  chmodSync(file, 0o640)
}

/** A version known to have hooks of type http that block on failure; an older one gets a command. */
const HTTP_SINCE = [2, 1, 326] as const

export async function installHook(context: Context, wishes: InstallWishes): Promise<void> {
  const { io } = context
  const { agent, isManaged, isUndo } = wishes
  const place = { folder: isManaged ? '/' : io.cwd, use: `hook ${agent}` }
  const keysAt = isManaged ? managedHome : io
  const plan = planOf(context, wishes)
  if (isManaged && process.getuid?.() !== 0) throw new CliError(exits.refused, 'NOT_ROOT', 'managed settings belong to root', 'use sudo')
  if (isUndo) {
    // Read before anything is changed: a file that cannot be read changes nothing.
    const changes = preview(io.cwd, editsOf(plan, true)).map((change) => {
      const original = originalOf(io, change.path, change.before)
      return original === undefined ? change : { ...change, after: original }
    })
    writeAll(context, changes)
    for (const { path } of changes) forgetOriginal(io, path)
    for (const note of await dropAgentKey(context, place, keysAt)) io.out.write(`${note}\n`)
    return
  }
  if (wishes.as === undefined) throw usage('missing: --agent, the agent that the hook acts as', '`countersign agent list` shows the agents')
  preview(io.cwd, editsOf(plan, false))
  const { key, file } = await keepAgentKey(context, wishes.as, place, keysAt)
  if (isManaged) shareKey(file, io.env['SUDO_GID'])
  const http = agent === 'claude-code' && !isManaged && hasHttp(io.env) ? { url: key.url, key: key.key } : null
  const changes = preview(io.cwd, editsOf({ ...plan, http }, false))
  for (const { path, before, after } of changes) keepOriginal(io, path, before, after)
  writeAll(context, changes)
  io.out.write(`${context.paint('green', '✔')} ${agent} asks Countersign as ${escapeControl(key.agent)}; its key is in ${file}\n`)
  for (const note of notesFor(agent, io, isManaged)) io.out.write(`${note}\n`)
}

function planOf({ io }: Context, { agent, wait = limits.hookWait, late = dialects[agent].late[0]!, isManaged }: InstallWishes): Plan {
  if (!(dialects[agent].late as readonly string[]).includes(late))
    throw usage(`--late ${late} would let ${agent} run the tool`, `use ${dialects[agent].late.join(' or ')}`)
  try {
    durationMs(wait, 'INVALID_REQUEST', '--wait')
  } catch (error) {
    throw usage((error as Error).message)
  }
  return { agent, program: programFor(io.env, agent, isManaged), wait, late: late as Late, http: null, isManaged }
}

/** The short name, if it resolves to this program. Codex runs a tool whose hook is not found, so it gets the whole path. */
export function programFor(env: Context['io']['env'], agent: AgentName, isManaged: boolean): readonly string[] {
  const bin = resolve(import.meta.dirname, '../../../../bin')
  const command = existsSync(join(bin, 'countersign')) ? join(bin, 'countersign') : join(bin, 'countersign.js')
  const found = (env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'countersign'))
    .find((file) => existsSync(file))
  const isShort = found !== undefined && !isManaged && agent !== 'codex' && realpathSync(found).startsWith(bin)
  return [isShort ? 'countersign' : command]
}

function hasHttp(env: Context['io']['env']): boolean {
  try {
    const text = execFileSync('claude', ['--version'], {
      env: { ...env },
      encoding: 'utf8',
      timeout: 10_000,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const version = /(\d+)\.(\d+)\.(\d+)/.exec(text)?.slice(1).map(Number) ?? [0, 0, 0]
    const at = HTTP_SINCE.findIndex((part, i) => part !== version[i])
    return at < 0 || version[at]! > HTTP_SINCE[at]!
  } catch {
    return false
  }
}

type Change = { readonly path: string; readonly before: string | null; readonly after: string | null; readonly secret: boolean }

function preview(cwd: string, edits: readonly FileEdit[]): Change[] {
  return edits.flatMap(({ path, secret = false, edit }) => {
    const file = isAbsolute(path) ? path : join(cwd, path)
    const before = existsSync(file) ? readFileSync(file, 'utf8') : null
    const after = edit(before)
    return before === after ? [] : [{ path: file, before, after, secret }]
  })
}

function writeAll({ io, paint }: Context, changes: readonly Change[]): void {
  if (changes.length === 0) io.out.write('nothing to change\n')
  for (const { path, before, after, secret } of changes) {
    io.out.write(`${paint('bold', path)}${after === null ? ' (deleted)' : ''}\n`)
    for (const change of hunksOf(changesBetween(before ?? '', after ?? '') ?? [])) {
      if (change === 'gap') io.out.write('  ...\n')
      else {
        const mark = { same: ' ', added: '+', removed: '-' }[change.kind]
        const text = secret ? change.text.replace(/("COUNTERSIGN_KEY": ")[^"]+/, '$1...') : change.text
        io.out.write(`${paint({ same: 'dim', added: 'green', removed: 'red' }[change.kind] as 'dim', `${mark} ${escapeControl(text)}`)}\n`)
      }
    }
    if (after === null) rmSync(path, { force: true })
    else {
      mkdirSync(dirname(path), { recursive: true })
      const mode = secret ? 0o600 : before === null ? 0o644 : statSync(path).mode & 0o777
      writeFileSync(`${path}.new`, after, { mode, flush: true })
      renameSync(`${path}.new`, path)
    }
  }
}

function notesFor(agent: AgentName, { cwd, env, home }: Context['io'], isManaged: boolean): string[] {
  const notes: string[] = []
  if (agent === 'codex' && !isManaged)
    notes.push('Codex skips a hook until you trust it: open /hooks in Codex, then run `countersign hook check codex`')
  if (agent === 'claude-code') {
    const folder = env['CLAUDE_CONFIG_DIR'] || join(home, '.claude')
    const project = ['settings.json', 'settings.local.json'].map((name) => join(cwd, '.claude', name))
    for (const file of ['/etc/claude-code/managed-settings.json', join(folder, 'settings.json'), ...project]) {
      const { rules, isOff } = settingsIn(file)
      if (rules.length > 0)
        notes.push(`${file} has \`ask\` rules (${rules.join(', ')}): Claude Code asks at its terminal even where Countersign allows`)
      if (isOff) notes.push(`${file} has \`disableAllHooks\`: Claude Code runs every tool without asking Countersign`)
    }
  }
  if (isManaged && env['SUDO_GID'] === undefined)
    notes.push('only root can read the key: give the group of the user of the agent access to its file (chgrp, chmod 640)')
  if (!isManaged) notes.push('An allowed shell can switch these hooks off; --managed writes settings that it cannot change')
  return notes
}

function settingsIn(file: string): { readonly rules: readonly string[]; readonly isOff: boolean } {
  let parsed: { permissions?: { ask?: unknown }; disableAllHooks?: unknown } | null
  try {
    parsed = JSON.parse(readFileSync(file, 'utf8')) as typeof parsed
  } catch {
    parsed = null
  }
  const ask = parsed?.permissions?.ask
  return { rules: Array.isArray(ask) ? ask.map((rule) => escapeControl(String(rule))) : [], isOff: parsed?.disableAllHooks === true }
}
