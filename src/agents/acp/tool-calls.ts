// Tool calls of an ACP agent, as it describes them: joined by their id over all updates, and as the arguments of a call at the gate.
import type { RequestPermissionRequest, SessionUpdate } from '@agentclientprotocol/sdk'
import { isAbsolute, relative, resolve, sep } from 'node:path'
import { limits } from '#kernel/limits.ts'

type Update = RequestPermissionRequest['toolCall']
type Diff = { readonly path: string; readonly oldText?: string | null; readonly newText: string }
export type ToolCall = Update & { readonly diffs: readonly Diff[]; readonly texts: readonly string[] }
export type ToolCalls = {
  /** The call with the fields of all its updates. */
  learn(update: Update): ToolCall
  clear(): void
}

/** A question can leave out the arguments that an earlier update had. */
export function createToolCalls(): ToolCalls {
  const known = new Map<string, ToolCall>()
  return {
    learn(update) {
      const before = known.get(update.toolCallId)
      const given = Object.fromEntries(Object.entries(update).filter(([, value]) => value !== null && value !== undefined))
      const content = update.content ?? []
      const diffs = content.flatMap((part) => (part.type === 'diff' ? [part] : []))
      const texts = content.flatMap((part) => (part.type === 'content' && part.content.type === 'text' ? [part.content.text] : []))
      const call: ToolCall = {
        ...before,
        ...given,
        toolCallId: update.toolCallId,
        diffs: diffs.length > 0 ? diffs : (before?.diffs ?? []),
        texts: texts.length > 0 ? texts : (before?.texts ?? []),
      }
      known.delete(call.toolCallId)
      known.set(call.toolCallId, call)
      if (known.size > limits.acpCallsMax) known.delete(known.keys().next().value!)
      return call
    },
    clear: () => known.clear(),
  }
}

export const isToolCall = (update: SessionUpdate): update is Extract<SessionUpdate, { sessionUpdate: 'tool_call' | 'tool_call_update' }> =>
  update.sessionUpdate === 'tool_call' || update.sessionUpdate === 'tool_call_update'

/** The server of all calls that ACP agents ask about. */
export const ACP_SERVER = 'acp'
const CAUTION = 'The agent describes this call itself. ACP shows what the agent says, not what will run.'
const NOTHING = 'The agent gave no arguments. Treat the call as one that changes things.'

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === null || value === '' || (typeof value === 'object' && Object.keys(value).length === 0)

/** `acp/<agent>/<kind>`. A call without arguments has a separate kind, so that a rule for reads never covers it. */
export function toolOf(agent_id: string, call: ToolCall): string {
  return `${agent_id}/${isUndescribed(call) ? 'unknown' : (call.kind ?? 'other')}`
}
const isUndescribed = ({ rawInput, diffs, texts, locations }: ToolCall): boolean =>
  isEmpty(rawInput) && diffs.length === 0 && texts.length === 0 && isEmpty(locations)

/** The part of a call that people see and answer. It has no id, so the same question after a restart finds the same answer. */
export function argumentsOf(call: ToolCall, folder: string): Record<string, unknown> {
  const { title, kind, rawInput, diffs, texts, locations } = call
  const outside = pathsOutside(call, folder)
  return {
    caution: isUndescribed(call) ? `${CAUTION} ${NOTHING}` : CAUTION,
    title: title ?? '(no title)',
    ...(kind ? { kind } : {}),
    ...(isEmpty(rawInput) ? {} : { input: rawInput }),
    ...(diffs.length === 0 ? {} : { diff: diffs.map(diffText).join('') }),
    ...(texts.length === 0 ? {} : { text: texts.join('\n') }),
    ...(isEmpty(locations) ? {} : { locations: locations!.map(({ path, line }) => (line ? `${path}:${line}` : path)) }),
    ...(outside.length === 0 ? {} : { outside_of_the_folder: outside }),
  }
}

export function isOutside(path: string, folder: string): boolean {
  const way = relative(folder, resolve(folder, path))
  return way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way)
}
const pathsOutside = ({ locations }: ToolCall, folder: string): string[] =>
  (locations ?? []).map(({ path }) => path).filter((path) => isOutside(path, folder))
/** Files outside of the run's folder that the call would change. */
export const editsOutside = ({ diffs }: ToolCall, folder: string): string[] =>
  diffs.map(({ path }) => path).filter((path) => isOutside(path, folder))

const linesOf = (text: string | null | undefined): string[] => (text ? text.replace(/\n$/, '').split('\n') : [])
const CONTEXT = 3

/** One hunk around all changes: right, if not the shortest. */
function diffText({ path, oldText, newText }: Diff): string {
  const [before, after] = [linesOf(oldText), linesOf(newText)]
  const most = Math.min(before.length, after.length)
  let start = 0
  while (start < most && before[start] === after[start]) start++
  let end = 0
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end++
  const from = Math.max(0, start - CONTEXT)
  const [lead, tail] = [before.slice(from, start), before.slice(before.length - end, before.length - end + CONTEXT)]
  const [out, into] = [before.slice(start, before.length - end), after.slice(start, after.length - end)]
  const span = (changed: number): string => `${from + 1},${lead.length + changed + tail.length}`
  const body = [...lead.map((l) => ` ${l}`), ...out.map((l) => `-${l}`), ...into.map((l) => `+${l}`), ...tail.map((l) => ` ${l}`)]
  const head = [`--- ${oldText === null || oldText === undefined ? '/dev/null' : path}`, `+++ ${path}`]
  return `${[...head, `@@ -${span(out.length)} +${span(into.length)} @@`, ...body].join('\n')}\n`
}
