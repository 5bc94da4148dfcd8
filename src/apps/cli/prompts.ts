// Questions at a terminal. Ctrl-C anywhere ends the command, and the terminal is left as it was.
import { setTimeout as wait } from 'node:timers/promises'
import { Interrupted } from './exits.ts'
import type { Io } from './terminal.ts'

export const isInteractive = ({ input, err }: Io): boolean => input.isTTY === true && err.isTTY === true

const CTRL_C = '\u0003'
const CTRL_D = '\u0004'
/** What was typed before the question stood there is no answer to it. */
const TYPED_AHEAD_MS = 120

/** One key out of these. Everything else is ignored, also several at once: what is pasted decides nothing. */
export async function askKey({ input, err }: Io, line: string, keys: string): Promise<string> {
  input.setRawMode(true)
  input.setEncoding('utf8')
  const early = (): void => undefined
  input.on('data', early)
  input.resume()
  try {
    await wait(TYPED_AHEAD_MS)
    input.off('data', early)
    err.write(line)
    const key = await nextKey(input, keys)
    err.write(`${key}\n`)
    return key
  } finally {
    input.off('data', early)
    input.setRawMode(false)
    input.pause()
  }
}

function nextKey(input: NodeJS.ReadStream, keys: string): Promise<string> {
  return new Promise((done, failed) => {
    const end = (settle: () => void): void => {
      input.off('data', take)
      input.off('end', gone)
      settle()
    }
    const gone = (): void => end(() => failed(new Interrupted()))
    const take = (text: string): void => {
      if (text.includes(CTRL_C) || text.includes(CTRL_D)) gone()
      else if (text.length === 1 && keys.includes(text.toLowerCase())) end(() => done(text.toLowerCase()))
    }
    input.on('data', take)
    input.on('end', gone)
  })
}

type Prompts = typeof import('@clack/prompts')
const streams = (io: Io): { input: NodeJS.ReadStream; output: NodeJS.WriteStream } => ({
  input: io.input,
  output: io.err as NodeJS.WriteStream,
})

/** Loaded when something is asked: most commands ask nothing. */
async function asked<T>(ask: (prompts: Prompts) => Promise<T>): Promise<Exclude<T, symbol>> {
  const prompts = await import('@clack/prompts')
  const answer = await ask(prompts)
  if (prompts.isCancel(answer)) throw new Interrupted()
  return answer as Exclude<T, symbol>
}

export const askText = (io: Io, message: string, usual = ''): Promise<string> =>
  asked(({ text }) => text({ message, ...(usual === '' ? {} : { placeholder: usual, defaultValue: usual }), ...streams(io) })).then(
    (answer) => answer ?? '',
  )

export const askSecret = (io: Io, message: string): Promise<string> => asked(({ password }) => password({ message, ...streams(io) }))

export const askYes = (io: Io, message: string): Promise<boolean> =>
  asked(({ confirm }) => confirm({ message, initialValue: false, ...streams(io) }))

export const askSome = (io: Io, message: string, options: { value: string; label: string; hint: string }[]): Promise<string[]> =>
  asked(({ multiselect }) => multiselect({ message, options, required: false, ...streams(io) }))
