// The hooks of Countersign that an agent's settings name, as its files have them now.
import { existsSync, readFileSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import type { AgentName } from '#bridges/hooks/dialects.ts'

export type InstalledHook = {
  readonly file: string
  readonly event: string
  readonly command: string | null
  readonly url: string | null
  readonly shown: string
}

const files: Readonly<Record<AgentName, readonly string[]>> = {
  'claude-code': ['/etc/claude-code/managed-settings.json', '.claude/settings.json'],
  codex: ['/etc/codex/requirements.toml', '.codex/hooks.json'],
  gemini: ['/etc/gemini-cli/settings.json', '.gemini/settings.json'],
  cursor: ['/etc/cursor/hooks.json', '.cursor/hooks.json'],
  opencode: ['.opencode/plugin/countersign.js'],
}

type Row = { readonly command?: unknown; readonly url?: unknown; readonly hooks?: readonly Row[] }

export function installedHooks(agent: AgentName, cwd: string): InstalledHook[] {
  return files[agent].flatMap((name) => {
    const file = isAbsolute(name) ? name : join(cwd, name)
    if (!existsSync(file)) return []
    const text = readFileSync(file, 'utf8')
    return entriesIn(name, text).map(({ event, command, url }) => ({
      file,
      event,
      command,
      url,
      shown: url === null ? 'the command' : 'the server',
    }))
  })
}

type Entry = Pick<InstalledHook, 'event' | 'command' | 'url'>

function entriesIn(name: string, text: string): Entry[] {
  if (name.endsWith('.toml')) return commandIn(/^command = (".*countersign.* hook codex.*")$/m.exec(text)?.[1])
  if (name.endsWith('.js')) return wordsIn(/= (\[.*\])$/m.exec(text)?.[1])
  const { hooks = {} } = JSON.parse(text) as { hooks?: Readonly<Record<string, readonly Row[]>> }
  return Object.entries(hooks).flatMap(([event, rows]) =>
    rows
      .flatMap((row) => row.hooks ?? [row])
      .flatMap(({ command, url }): Entry[] => {
        if (typeof url === 'string' && url.includes('/hook/claude-code')) return [{ event, command: null, url }]
        return typeof command === 'string' && /countersign(?:\.js)?'? hook /.test(command) ? [{ event, command, url: null }] : []
      }),
  )
}

const commandIn = (json: string | undefined): Entry[] =>
  json === undefined ? [] : [{ event: 'PreToolUse', command: JSON.parse(json) as string, url: null }]
const wordsIn = (json: string | undefined): Entry[] =>
  json === undefined
    ? []
    : [
        {
          event: 'tool.execute.before',
          command: (JSON.parse(json) as string[]).map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' '),
          url: null,
        },
      ]
