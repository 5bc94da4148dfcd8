// A page whose commands are run as they stand: blocks of `sh` in one shell, with what they print behind them, and transcripts of a
// terminal (`console`). An ellipsis stands for what differs each time.
import assert from 'node:assert/strict'
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { runShellInTerminal, type Press } from './cli.ts'

export type Block = { readonly language: string; readonly text: string; readonly prints: string | null }

/** Every block that is not the output of the one before it. */
export function blocksIn(markdown: string): Block[] {
  const found = [...markdown.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language, text]) => ({ language: language!, text: text! }))
  return found.flatMap((block, i) => {
    const next = found[i + 1]
    return block.language === 'text' ? [] : [{ ...block, prints: block.language === 'sh' && next?.language === 'text' ? next.text : null }]
  })
}

const COMMANDS = /^(countersign|npm|npx|node|curl|sh|git|sqlite3) \S/

/** Every command that a reader could type: the lines of code blocks, and inline commands in sentences. */
export function commandsIn(markdown: string): string[] {
  const inBlocks = blocksIn(markdown).flatMap(({ language, text }) =>
    language === 'console' ? [...text.matchAll(/^\$ (.*)$/gm)].map(([, line]) => line!) : [text],
  )
  const prose = markdown.replaceAll(/^```.*?^```$/gms, '')
  const inline = [...prose.matchAll(/`([^`\n]+)`/g)].map(([, words]) => words!).filter((words) => COMMANDS.test(words))
  return [...new Set([...inBlocks, ...inline])]
}

function patternOf(shown: string): RegExp {
  const parts = shown.split('…').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
  return new RegExp(`^${parts.join('[^\\n]+')}$`)
}

export const assertPrinted = (printed: string, shown: string): void => assert.match(printed, patternOf(shown))

const LOOKS_MAX = 60

/** The output of a block. A block that only looks is typed again until an agent has come as far as it shows, as a reader would. */
export async function printsEventually(session: Shell, text: string, shown: string | null): Promise<string> {
  const looks = /^countersign (checkpoint list|task get) .*\n$/.test(text)
  for (let look = 1; ; look++) {
    const printed = await session.run(text)
    if (!looks || shown === null || patternOf(shown).test(printed) || look === LOOKS_MAX) return printed
    await sleep(500)
  }
}

const MARK = '--- the end of a block ---'
/** Below the time that a test has, so that the block is named. */
const BLOCK_MS_MAX = 110_000

export type Shell = { run(text: string): Promise<string>; close(): Promise<void> }

/** One shell for all blocks of a page; both outputs are one, as at a terminal, unless errors are left out. */
export function openShell(shell: string, cwd: string, env: Record<string, string>, showsErrors = true): Shell {
  const child: ChildProcessWithoutNullStreams = spawn(shell, ['-s'], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'], detached: true })
  child.stderr.resume()
  let said = ''
  let look = (): void => undefined
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    said += part
    look()
  })
  child.stdin.on('error', () => undefined)
  if (showsErrors) child.stdin.write('exec 2>&1\n')
  return {
    /** The output of the block. */
    async run(text: string): Promise<string> {
      said = ''
      const { promise, resolve, reject } = Promise.withResolvers<string>()
      const late = setTimeout(() => reject(new Error(`${text} does not end; so far: ${said}`)), BLOCK_MS_MAX)
      const gone = (): void => reject(new Error(`${text} ended the shell: ${said}`))
      child.once('exit', gone)
      look = () => {
        if (said.endsWith(`${MARK}\n`)) resolve(said.slice(0, -MARK.length - 1))
      }
      // A command that looks at its input must not take the commands behind it.
      child.stdin.write(`{\n${text}} </dev/null\necho '${MARK}'\n`)
      try {
        return await promise
      } finally {
        clearTimeout(late)
        child.off('exit', gone)
      }
    },
    async close(): Promise<void> {
      if (child.exitCode !== null || child.signalCode !== null) return
      // Whatever it still waits for.
      process.kill(-child.pid!, 'SIGKILL')
      await once(child, 'exit')
    },
  }
}

/** Runs what a transcript shows in a terminal, presses the keys that it shows behind a question mark, and compares. */
export async function replayTranscript(text: string, { cwd, env }: { cwd: string; env: Record<string, string> }): Promise<string> {
  const [first, ...lines] = text.split('\n')
  const command = first!.replace(/^\$ /, '')
  const presses = lines.flatMap((line): Press[] => {
    const [, question, key] = /^(.*\? )(\S)$/.exec(line) ?? []
    return question === undefined ? [] : [[question, key!]]
  })
  const { code, out } = await runShellInTerminal(command, presses, { cwd, env: { ...env, NO_COLOR: '1' } })
  assert.equal(code, 0, out)
  assertPrinted(stripVTControlCharacters(out).replaceAll('\r\n', '\n'), lines.join('\n'))
  return command
}
