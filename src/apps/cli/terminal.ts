// The terminal of a command: two outputs, an input, an environment. Tests pass their own.
import { styleText } from 'node:util'
import { cutToWidth, escapeControl, padToWidth, widthOf } from './output/safe-text.ts'

export type Output = {
  write(text: string | Uint8Array): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

/** An output that is no terminal has no width; cards are still wrapped. */
export const columnsOf = ({ columns }: Output): number => columns ?? 80

export type Io = {
  readonly out: Output
  readonly err: Output
  readonly input: NodeJS.ReadStream
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly home: string
}

type Style = Parameters<typeof styleText>[0]
export type Paint = (style: Style, text: string) => string

/** Colours for a terminal, unless the environment or a flag disables or forces them. */
export function paintFor(output: Output, env: Io['env'], isWanted: boolean): Paint {
  const forced = env['FORCE_COLOR']
  const isForced = forced !== undefined && forced !== '' && forced !== '0'
  const isPlain = Boolean(env['NO_COLOR']) || env['TERM'] === 'dumb' || !isWanted
  if (isPlain || !(output.isTTY === true || isForced)) return (_, text) => text
  return (style, text) => styleText(style, text, { validateStream: false })
}

export type Column = { readonly title: string; readonly style?: ((cell: string) => Style | null) | undefined }

/** Rows under their titles. On a terminal the widest columns give way until a row fits on a line. */
export function tableOf(columns: readonly Column[], rows: readonly (readonly string[])[], output: Output, paint: Paint): string {
  const cells = rows.map((row) => row.map(escapeControl))
  const widths = columns.map(({ title }, i) => Math.max(widthOf(title), ...cells.map((row) => widthOf(row[i]!))))
  if (output.isTTY === true) narrow(widths, columnsOf(output) - 2 * (columns.length - 1))
  const line = (row: readonly string[], style: (cell: string, i: number) => Style | null): string =>
    row
      .map((cell, i) => {
        const cut = cutToWidth(cell, widths[i]!)
        const styled = style(cell, i)
        const text = i === row.length - 1 ? cut : padToWidth(cut, widths[i]!)
        return styled === null ? text : paint(styled, text)
      })
      .join('  ')
      .trimEnd()
  const head = line(
    columns.map(({ title }) => title),
    () => ['bold', 'dim'],
  )
  return [head, ...cells.map((row) => line(row, (cell, i) => columns[i]!.style?.(cell) ?? null))].map((text) => `${text}\n`).join('')
}

const COLUMN_MIN = 8

function narrow(widths: number[], room: number): void {
  while (widths.reduce((sum, width) => sum + width, 0) > room) {
    // The first column holds the id for the next command: never cut it.
    const widest = widths.indexOf(Math.max(...widths.slice(1)), 1)
    if (widest < 0 || widths[widest]! <= COLUMN_MIN) return
    widths[widest]!--
  }
}

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const FRAME_MS = 80
/** A faster response needs no progress line. */
const PATIENCE_MS = 400

export type Progress = { say(message: string): void; stop(): void }

/** A progress line on the error output; nothing without a terminal. */
export function startProgress(err: Output, message: string): Progress {
  if (err.isTTY !== true) return { say() {}, stop() {} }
  let shown = message
  let frame = 0
  let isDrawn = false
  const draw = (): void => {
    isDrawn = true
    err.write(`\r\u001b[2K${FRAMES[frame++ % FRAMES.length]} ${cutToWidth(escapeControl(shown), columnsOf(err) - 3)}`)
  }
  let timer: NodeJS.Timeout = setTimeout(() => {
    draw()
    timer = setInterval(draw, FRAME_MS).unref()
  }, PATIENCE_MS).unref()
  return {
    say: (next) => (shown = next),
    stop() {
      clearTimeout(timer)
      clearInterval(timer)
      if (isDrawn) err.write('\r\u001b[2K')
      isDrawn = false
    },
  }
}

const BAR = 24

/** `██████░░░░ 40 % of 52.4 MB`, or a count if the end is not known. */
export function barOf(done: number, total: number | null): string {
  if (total === null || total <= 0) return bytesIn(done)
  const share = Math.min(1, done / total)
  const full = Math.round(share * BAR)
  return `${'█'.repeat(full)}${'░'.repeat(BAR - full)} ${String(Math.floor(share * 100)).padStart(3)} % of ${bytesIn(total)}`
}

export function bytesIn(count: number): string {
  if (count < 1_000) return `${count} B`
  const power = Math.min(3, Math.floor(Math.log10(count) / 3))
  return `${(count / 1_000 ** power).toFixed(1)} ${['B', 'kB', 'MB', 'GB'][power]}`
}
