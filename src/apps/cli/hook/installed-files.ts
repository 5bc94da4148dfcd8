// The files that install a hook, for each agent: what they become, and what they were before. Pure: texts in, texts out.
import { durationMs } from '#kernel/codec/timestamps.ts'
import type { AgentName, Late } from '#bridges/hooks/dialects.ts'
import { usage } from '../exit-codes.ts'

export type Plan = {
  readonly agent: AgentName
  /** The program and its leading words, such as `countersign`. */
  readonly program: readonly string[]
  readonly wait: string
  readonly late: Late
  /** Claude Code's hooks of type http; null: a command for every tool. */
  readonly http: { readonly url: string; readonly key: string } | null
  readonly isManaged: boolean
}

/** A file below the project, or an absolute path, and its next text. `text` null: the file goes. `secret`: readable by its owner alone. */
export type FileEdit = { readonly path: string; readonly secret?: true; edit(before: string | null): string | null }

type Fields = Record<string, unknown>

/** The agent ends the hook and runs the tool after this time. */
const timeoutSeconds = ({ wait }: Plan): number => Math.ceil(durationMs(wait, 'INVALID_REQUEST', '--wait') / 1000) + 60

const quote = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
export const commandOf = ({ program, agent, wait, late, isManaged }: Plan): string =>
  [...program, 'hook', agent, '--wait', wait, '--late', late, ...(isManaged ? ['--managed'] : [])].map(quote).join(' ')

const OURS = /(?:^|[\s/'"])countersign(?:\.js)?'?"? hook (?:claude-code|codex|gemini|cursor|opencode)\b|\/hook\/claude-code(?:\?|$)/
const isOurs = (hook: unknown): boolean => {
  const { command, url } = (hook ?? {}) as Fields
  return OURS.test(typeof command === 'string' ? command : typeof url === 'string' ? url : '')
}

function fieldsFrom(path: string, text: string | null): Fields {
  if (text === null || text.trim() === '') return {}
  try {
    const parsed = JSON.parse(text) as unknown
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return parsed as Fields
  } catch {
    // Said below.
  }
  throw usage(`${path} is not a JSON object; nothing was changed`, 'correct it, then install again')
}
const textOf = (fields: Fields): string | null => (Object.keys(fields).length === 0 ? null : `${JSON.stringify(fields, null, 2)}\n`)

/** Removes our entries from lists of hooks, and the lists and objects that become empty. */
function withoutOurs(hooks: unknown): Fields {
  const kept = Object.entries((hooks ?? {}) as Fields).map(([event, rows]) => {
    if (!Array.isArray(rows)) return [event, rows] as const
    const left = (rows as Fields[]).flatMap((row) => {
      if (!Array.isArray(row['hooks'])) return isOurs(row) ? [] : [row]
      const others = (row['hooks'] as unknown[]).filter((hook) => !isOurs(hook))
      return others.length === 0 && row['hooks'].length > 0 ? [] : [{ ...row, hooks: others }]
    })
    return [event, left] as const
  })
  return Object.fromEntries(kept.filter(([, rows]) => !Array.isArray(rows) || rows.length > 0))
}

/** Puts `added` in place of our earlier entries; null takes them away. */
function jsonEdit(path: string, added: Readonly<Record<string, readonly Fields[]>> | null, extra: Fields = {}): FileEdit {
  return {
    path,
    edit(before) {
      const { hooks, ...rest } = fieldsFrom(path, before)
      const left = withoutOurs(hooks)
      for (const [event, rows] of Object.entries(added ?? {})) left[event] = [...((left[event] ?? []) as Fields[]), ...rows]
      const others = added === null ? Object.fromEntries(Object.entries(rest).filter(([name]) => !(name in extra))) : { ...extra, ...rest }
      const next = Object.keys(left).length === 0 ? (added === null ? others : rest) : { ...others, hooks: left }
      return textOf(next)
    },
  }
}

const NOT_MCP = '^(?!mcp__).*'

function claudeEdits(plan: Plan, isUndo: boolean): FileEdit[] {
  const timeout = timeoutSeconds(plan)
  const command = { type: 'command', command: commandOf(plan), timeout, onFailure: 'block' }
  const { http } = plan
  const url = http && `${http.url}/hook/claude-code?wait=${plan.wait}&late=${plan.late}`
  const web = {
    type: 'http',
    url,
    timeout,
    onFailure: 'block',
    headers: { Authorization: 'Bearer $COUNTERSIGN_KEY' },
    allowedEnvVars: ['COUNTERSIGN_KEY'],
  }
  const rows = http
    ? [
        { matcher: NOT_MCP, hooks: [web] },
        { matcher: 'mcp__.*', hooks: [command] },
      ]
    : [{ matcher: '*', hooks: [command] }]
  const path = plan.isManaged ? '/etc/claude-code/managed-settings.json' : '.claude/settings.json'
  const settings = jsonEdit(path, isUndo ? null : { PreToolUse: rows })
  return plan.isManaged ? [settings] : [settings, localEdit(http?.key ?? null, isUndo)]
}

/** The key as a variable of this user's sessions: the settings of the project stay free of secrets. */
function localEdit(key: string | null, isUndo: boolean): FileEdit {
  const path = '.claude/settings.local.json'
  return {
    path,
    secret: true,
    edit(before) {
      const { env, ...rest } = fieldsFrom(path, before)
      const { COUNTERSIGN_KEY: _, ...others } = (env ?? {}) as Fields
      const next = key === null || isUndo ? others : { ...others, COUNTERSIGN_KEY: key }
      return textOf(Object.keys(next).length === 0 ? rest : { ...rest, env: next })
    },
  }
}

function codexEdits(plan: Plan, isUndo: boolean): FileEdit[] {
  const hook = { type: 'command', command: commandOf(plan), timeout: timeoutSeconds(plan) }
  if (plan.isManaged) return [codexRequirements(hook, isUndo)]
  const rows = { PreToolUse: [{ matcher: '.*', hooks: [hook] }] }
  return [jsonEdit('.codex/hooks.json', isUndo ? null : rows), codexFeature('.codex/config.toml', isUndo)]
}

const FEATURE = 'hooks = true # countersign hook'

/** `[features] hooks = true`: without it a flag of the command line switches the hooks off. */
function codexFeature(path: string, isUndo: boolean): FileEdit {
  return {
    path,
    edit(before) {
      const lines = (before ?? '').split('\n')
      const clean = lines.filter((line) => line !== FEATURE)
      const at = clean.findIndex((line) => /^\s*\[features\]\s*(?:#.*)?$/.test(line))
      const end = at < 0 ? -1 : clean.findIndex((line, i) => i > at && /^\s*\[/.test(line))
      const table = at < 0 ? [] : clean.slice(at + 1, end < 0 ? undefined : end)
      if (isUndo) {
        const isEmpty = lines.length > clean.length && table.every((line) => line.trim() === '')
        if (isEmpty) clean.splice(at, table.length + 1)
        const text = clean.join('\n').replace(/\n{2,}$/, '\n')
        return text.trim() === '' ? null : text
      }
      const first = clean.findIndex((line) => /^\s*\[/.test(line))
      const root = first < 0 ? clean : clean.slice(0, first)
      if (at < 0 && clean.some((line) => /^\s*\[\s*(?:features|"features"|'features')\s*[\].]/.test(line)))
        throw usage(`${path} has a table [features] that cannot be extended; nothing was changed`, 'add `hooks = true` to it yourself')
      if (root.some((line) => /^\s*(?:features|"features"|'features')\s*[.=]/.test(line)))
        throw usage(
          `${path} has \`features\` outside of a table; nothing was changed`,
          'write it as a table [features], then install again',
        )
      if (table.some((line) => /^\s*hooks\s*=\s*true\b/.test(line))) return before
      if (table.some((line) => /^\s*hooks\s*=/.test(line)))
        throw usage(`${path} switches hooks off; nothing was changed`, 'set `hooks = true` under [features]')
      if (at >= 0) clean.splice(at + 1, 0, FEATURE)
      const text = at >= 0 ? clean.join('\n') : `${clean.join('\n').trimEnd()}\n\n[features]\n${FEATURE}\n`
      return text.replace(/^\n+/, '')
    },
  }
}

const [BEGIN, END] = ['# countersign hook: begin', '# countersign hook: end']

function codexRequirements(hook: { readonly command: string; readonly timeout: number }, isUndo: boolean): FileEdit {
  const path = '/etc/codex/requirements.toml'
  const block = `${BEGIN}
[features]
hooks = true

[[hooks.PreToolUse]]
matcher = ".*"

[[hooks.PreToolUse.hooks]]
type = "command"
command = ${JSON.stringify(hook.command)}
timeout = ${hook.timeout}
${END}
`
  return {
    path,
    edit(before) {
      const [from, to] = [(before ?? '').indexOf(BEGIN), (before ?? '').indexOf(END)]
      const rest = from < 0 || to < 0 ? (before ?? '') : before!.slice(0, from) + before!.slice(to + END.length + 1)
      if (isUndo) return rest.trim() === '' ? null : rest
      if (/^\s*\[(?:features|hooks)\b|^\s*\[\[hooks\b/m.test(rest))
        throw usage(`${path} has tables [features] or [hooks] already; nothing was changed`, `add these lines to it:\n${block}`)
      return rest.trim() === '' ? block : `${rest.trimEnd()}\n\n${block}`
    },
  }
}

function geminiEdits(plan: Plan, isUndo: boolean): FileEdit[] {
  const hook = { type: 'command', name: 'countersign', command: commandOf(plan), timeout: timeoutSeconds(plan) * 1000 }
  const path = plan.isManaged ? '/etc/gemini-cli/settings.json' : '.gemini/settings.json'
  return [jsonEdit(path, isUndo ? null : { BeforeTool: [{ matcher: '.*', hooks: [hook] }] })]
}

function cursorEdits(plan: Plan, isUndo: boolean): FileEdit[] {
  const hook = { command: commandOf(plan), timeout: timeoutSeconds(plan), failClosed: true }
  const path = plan.isManaged ? '/etc/cursor/hooks.json' : '.cursor/hooks.json'
  const edit = jsonEdit(path, isUndo ? null : { beforeShellExecution: [hook], beforeMCPExecution: [hook] }, { version: 1 })
  return [isUndo ? { path, edit: (before) => (before === null ? null : keepVersion(edit.edit(before))) } : edit]
}
/** `version` stays with the hooks of others. */
const keepVersion = (text: string | null): string | null => (text === null ? null : textOf({ version: 1, ...(JSON.parse(text) as Fields) }))

function opencodeEdits(plan: Plan, isUndo: boolean): FileEdit[] {
  if (plan.isManaged) throw usage('OpenCode has no managed plugins', 'serve its tools through `countersign gate` instead')
  const words = [...plan.program, 'hook', plan.agent, '--wait', plan.wait, '--late', plan.late]
  return [{ path: '.opencode/plugin/countersign.js', edit: () => (isUndo ? null : pluginText(words)) }]
}

const pluginText = (
  words: readonly string[],
): string => `// Written by \`countersign hook install opencode\`: every tool call asks Countersign first.
import { spawn } from 'node:child_process'

const [program, ...words] = ${JSON.stringify(words)}

const ask = (event) =>
  new Promise((resolve, reject) => {
    const child = spawn(program, words, { stdio: ['pipe', 'pipe', 'pipe'] })
    let out = ''
    let err = ''
    child.stdout.on('data', (part) => (out += part))
    child.stderr.on('data', (part) => (err += part))
    child.on('error', reject)
    child.stdin.on('error', () => undefined)
    child.on('close', (code) => (code === 0 ? resolve(out) : reject(new Error(err.trim() || 'countersign hook ended with ' + code))))
    child.stdin.end(JSON.stringify(event))
  })

export const Countersign = async () => ({
  'tool.execute.before': async ({ tool, sessionID, callID }, { args }) => {
    const text = await ask({ hook_event_name: 'tool.execute.before', session_id: sessionID, call_id: callID, tool, args: args ?? {} })
    // The hook is silent where \`countersign gate\` asks by itself.
    if (text === '') return
    const { decision, reason } = JSON.parse(text)
    if (decision !== 'allow') throw new Error(reason || 'Countersign denied the call')
  },
})
`

const edits: Readonly<Record<AgentName, (plan: Plan, isUndo: boolean) => FileEdit[]>> = {
  'claude-code': claudeEdits,
  codex: codexEdits,
  gemini: geminiEdits,
  cursor: cursorEdits,
  opencode: opencodeEdits,
}
export const editsOf = (plan: Plan, isUndo: boolean): FileEdit[] => edits[plan.agent](plan, isUndo)
