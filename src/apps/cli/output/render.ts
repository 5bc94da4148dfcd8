// Answers for people: a list becomes a table, a single object a card. Programs ask for --json and get the answer unchanged.
import type { styleText } from 'node:util'
import { CliError, exits } from '../exit-codes.ts'
import { listings, type Listing } from '../derive/columns.ts'
import { namesOf } from './names.ts'
import { shortIds } from './short-ids.ts'
import { actLine, isTaskAnswer, taskCard } from './task-lines.ts'
import type { Context } from '../derive/command.ts'
import { columnsOf, tableOf, type Paint } from '../terminal.ts'
import { cutToWidth, foldLines, escapeControl, inertJson, inertLines, padToWidth, widthOf } from './safe-text.ts'
import { agoOf, exactly, isTime } from './relative-time.ts'

type Value = Readonly<Record<string, unknown>>
const isValue = (value: unknown): value is Value => typeof value === 'object' && value !== null && !Array.isArray(value)
type Listed = { readonly items: Value[]; readonly next_cursor?: string | null; readonly more_projects?: number }
const isList = (answer: unknown): answer is Listed => isValue(answer) && Array.isArray(answer['items'])

export function writeJson({ io, globals: { pick } }: Context, value: unknown, indent = io.out.isTTY === true ? 2 : 0): void {
  if (pick === undefined) return void io.out.write(`${inertJson(value, indent)}\n`)
  const found = valuesAt(value, pick.split('.'))
  if (found.length > 0 && found.every((value) => value === undefined)) {
    const message = `The command worked, but its output has no field ${JSON.stringify(pick)}.`
    throw new CliError(exits.refused, 'NO_FIELD', message, `its fields: ${fieldsIn(value)}; --json shows all of it`)
  }
  // Unchanged, so that another command can read it; for a terminal, control characters are escaped.
  const safeText = (text: string): string => (io.out.isTTY === true ? inertLines(text) : text)
  for (const item of found) io.out.write(`${typeof item === 'string' ? safeText(item) : inertJson(item ?? null, indent)}\n`)
}

/** The values at a path; a list contributes the values of all its items. Undefined if absent. */
function valuesAt(value: unknown, [step, ...rest]: readonly string[]): unknown[] {
  if (step === undefined) return [value]
  if (Array.isArray(value))
    return /^\d+$/.test(step) ? valuesAt(value[Number(step)], rest) : value.flatMap((item) => valuesAt(item, [step, ...rest]))
  return isValue(value) && Object.hasOwn(value, step) ? valuesAt(value[step], rest) : [undefined]
}

const fieldsIn = (value: unknown): string => (isValue(value) ? Object.keys(value).join(', ') : 'none')

export async function show(context: Context, operation: string, answer: unknown): Promise<void> {
  if (context.json) return writeJson(context, answer)
  if (isList(answer)) {
    context.io.out.write(besides(answer, context.paint))
    return showList(context, operation, answer)
  }
  if (isTaskAnswer(answer)) {
    const line = actLine(operation, answer)
    if (line !== null) {
      const { where, isOffline } = await context.remote()
      const link = operation === 'task.create' && !isOffline ? `  ${where}/tasks/${escapeControl(answer.task.id)}\n` : ''
      return void context.io.out.write(`${context.paint('green', '✔')} ${line}\n${link}`)
    }
    if (operation === 'task.get')
      return void context.io.out.write(cardsOf({ task: taskCard(answer.task) }, 'task', columnsOf(context.io.out), context.paint))
  }
  if (isValue(answer)) context.io.out.write(cardsOf(answer, operation.split('.')[0]!, columnsOf(context.io.out), context.paint))
}

/** The text and number fields of a response beside its list, such as its subject and totals, on one line. */
function besides(answer: Value, paint: Paint): string {
  const fields = Object.entries(answer).filter(
    ([name, value]) => !['next_cursor', 'more_projects'].includes(name) && /^(string|number)$/.test(typeof value),
  )
  const figures = fields.map(([name, value]) => `${paint('dim', name.replaceAll('_', ' '))} ${escapeControl(cellOf(value))}`)
  return figures.length === 0 ? '' : `${figures.join('  ')}\n`
}

// --- Lists -----------------------------------------------------------------------------------------------------------------

export function valueAt(value: unknown, path: string): unknown {
  let inner = value
  for (const step of path.split('.')) inner = isValue(inner) ? inner[step] : undefined
  return inner
}

const cellOf = (value: unknown): string =>
  value === null || value === undefined
    ? '-'
    : typeof value === 'string'
      ? value
      : typeof value === 'boolean'
        ? value
          ? 'yes'
          : 'no'
        : JSON.stringify(value)

function listingOf(item: Value): Listing {
  const known = listings.find(({ marks }) => marks.every((mark) => Object.hasOwn(item, mark)))
  const scalars = Object.keys(item).filter((field) => !isValue(item[field]) && !Array.isArray(item[field]))
  return known ?? { marks: [], columns: scalars.slice(0, 6).map((field) => [field.replaceAll('_', ' ').toUpperCase(), field] as const) }
}

/** Names the missing items, such as `no tasks`. */
function emptyMessage(operation: string): string {
  const noun = operation.split('.')[0]!.replaceAll('_', ' ')
  if (noun === 'inbox') return 'nothing waits for you'
  const many = /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : /(s|x|ch|sh)$/.test(noun) ? `${noun}es` : `${noun}s`
  return `no ${operation === 'harness.sessions' ? 'sessions' : many}`
}

async function showList(context: Context, operation: string, answer: Listed): Promise<void> {
  const { io, paintErr } = context
  const { items, next_cursor, more_projects = 0 } = answer
  const first = items[0]
  if (!first) io.err.write(`${paintErr('dim', emptyMessage(operation))}\n`)
  else {
    const listing = listingOf(first)
    io.out.write(await tableFor(context, listing.rows === undefined ? items : items.flatMap(listing.rows), listing))
  }
  if (next_cursor) io.err.write(`${paintErr('dim', 'there is more: --all shows everything, --limit a longer page')}\n`)
  if (more_projects > 0)
    io.err.write(`${paintErr('dim', `${more_projects} more ${more_projects === 1 ? 'project' : 'projects'}: --all-projects`)}\n`)
}

/** Short ids, names and relative times; the record is exact. */
export async function tableFor(context: Context, items: readonly Value[], { columns, isRecord = false }: Listing): Promise<string> {
  const { io, paint } = context
  const rows = items.map((item) => columns.map(([, path, read]) => cellOf(read ? read(item) : valueAt(item, path))))
  const names = isRecord
    ? new Map<string, string>()
    : await namesOf(
        context,
        rows.flatMap((row) => row.filter((_, i) => isOfPerson(columns[i]![1]))),
      )
  const short = shortIds(rows.flat())
  const now = Date.now()
  const shown = rows.map((row) =>
    row.map((cell, i) => {
      const path = columns[i]![1]
      if (isTimePath(path) && isTime(cell)) return isRecord ? exactly(cell) : agoOf(cell, now)
      return (isOfPerson(path) ? names.get(cell) : undefined) ?? (isIdPath(path) ? short.get(cell) : undefined) ?? cell
    }),
  )
  // Columns without any value are left out.
  const kept = columns.map((_, i) => i === 0 || shown.some((row) => row[i] !== '-'))
  return tableOf(
    columns.filter((_, i) => kept[i]).map(([title]) => ({ title, style: styleOf })),
    shown.map((row) => row.filter((_, i) => kept[i])),
    io.out,
    paint,
  )
}

const isTimePath = (path: string): boolean => /(^|[._])(at|seen|until)$/.test(path)
const isIdPath = (path: string): boolean => /(^|[._])id$/.test(path)
const isOfPerson = (path: string): boolean =>
  /(^|[._])(agent_id|agent\.id|assignee|by|owner|principal|reviewer|subject|user_id)$/.test(path)

type Style = Parameters<typeof styleText>[0]
const styles: readonly [Style, readonly string[]][] = [
  ['green', ['completed', 'accepted', 'approved', 'allow', 'resolved', 'verified', 'ok']],
  ['yellow', ['blocked', 'pending', 'review_ready', 'under_review', 'changes_requested', 'warn']],
  ['red', ['rejected', 'expired', 'deny', 'changed', 'fail']],
  ['cyan', ['in_progress', 'assigned']],
]
/** States and verdicts have colours; everything else is plain. */
export const styleOf = (word: string): Style | null => styles.find(([, words]) => words.includes(word))?.[0] ?? null

// --- Cards -----------------------------------------------------------------------------------------------------------------

/** The thing that the command is about in full, the others in a line each. */
export function cardsOf(answer: Value, noun: string, columns: number, paint: Paint): string {
  const things = Object.entries(answer).filter(([, value]) => isValue(value)) as [string, Value][]
  const scalars = Object.fromEntries(Object.entries(answer).filter(([, value]) => !isValue(value)))
  const main = things.find(([name]) => name === noun) ?? things[0]
  const parts: string[] = []
  if (Object.values(scalars).some((value) => !isEmpty(value))) parts.push(fieldsOf(scalars, '', columns, paint))
  if (main) parts.push(`${paint('bold', titleOf(main[0], main[1]))}\n${fieldsOf(main[1], '  ', columns, paint)}`)
  const others = things.filter((thing) => thing !== main)
  if (others.length > 0) parts.push(others.map(([name, value]) => `${lineOf(name, value, paint)}\n`).join(''))
  return parts.join('\n')
}

const titleOf = (name: string, { id }: Value): string =>
  typeof id === 'string' ? `${escapeControl(name)} ${escapeControl(id)}` : escapeControl(name)

function lineOf(name: string, value: Value, paint: Paint): string {
  const state = typeof value['state'] === 'string' ? ` ${paintWord(value['state'], paint)}` : ''
  return titleOf(name, value) + state
}

const paintWord = (word: string, paint: Paint): string => {
  const style = styleOf(word)
  return style === null ? escapeControl(word) : paint(style, escapeControl(word))
}

const isEmpty = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === '' ||
  (Array.isArray(value) && value.length === 0) ||
  (isValue(value) && Object.keys(value).length === 0)

const LINES_MAX = 8
/** Server-generated values that people copy: each stays on one line, no matter how long it is. */
const WHOLE = ['key', 'link', 'secret', 'ticket', 'token', 'url']

/** A one-line text goes beside its name. Every line of a longer text is marked, so that none looks like a field of its own (X32). */
function valueLines(text: string, room: number): string[] {
  const lines = foldLines(inertLines(text), room)
  return lines.length === 1 ? lines : foldLines(inertLines(text), Math.max(4, room - 2)).map((line) => `│ ${line}`)
}

function fieldsOf(value: Value, indent: string, columns: number, paint: Paint): string {
  const rows = rowsOf(value, '', value['id']).filter(([name]) => name !== 'id' || indent === '')
  const width = Math.min(Math.max(0, ...rows.map(([name]) => widthOf(name))), Math.floor(columns / 2))
  const room = Math.max(8, columns - indent.length - width - 2)
  return rows
    .flatMap(([name, lines]) => {
      const shown = lines.flatMap((line) => (indent === '' && WHOLE.includes(name) ? [escapeControl(line)] : valueLines(line, room)))
      const kept = shown.length > LINES_MAX ? [...shown.slice(0, LINES_MAX), `… ${shown.length - LINES_MAX} more lines; see --json`] : shown
      return kept.map((line, i) => {
        const style = lines.length === 1 ? styleOf(line) : null
        return `${indent}${i === 0 ? paint('dim', padToWidth(cutToWidth(name, width), width)) : ' '.repeat(width)}  ${style === null ? line : paint(style, line)}`.trimEnd()
      })
    })
    .map((line) => `${line}\n`)
    .join('')
}

/** Every field with its lines; the fields of a thing inside are named by their path. */
function rowsOf(value: Value, prefix: string, id: unknown): [string, string[]][] {
  return Object.entries(value).flatMap(([field, inner]): [string, string[]][] => {
    const name = escapeControl(prefix + field)
    // A value that is false, empty, zero or repeats the title says nothing; --json has it all.
    if (isEmpty(inner) || inner === false || inner === 0 || (inner === id && field !== 'id')) return []
    if (isValue(inner)) return rowsOf(inner, `${prefix}${field}.`, id)
    if (!Array.isArray(inner)) return [[name, [cellOf(inner)]]]
    return [[name, inner.every((item) => typeof item === 'string' && !/\s/.test(item)) ? [inner.join(', ')] : inner.map(itemOf)]]
  })
}

/** Text with spaces is quoted: no value looks like a field beside it. */
const quotedCell = (value: unknown): string =>
  typeof value === 'string' && !/^[^\s"=]+$/.test(value) ? JSON.stringify(value) : cellOf(value)

const itemOf = (item: unknown): string =>
  isValue(item)
    ? Object.entries(item)
        .filter(([, inner]) => !isEmpty(inner))
        .map(([field, inner]) => `${field}=${quotedCell(inner)}`)
        .join(' ')
    : `- ${cellOf(item)}`
