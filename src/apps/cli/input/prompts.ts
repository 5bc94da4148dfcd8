// Questions at a terminal. Ctrl-C anywhere ends the command, and the terminal is left as it was.
import { Interrupted } from '../exit-codes.ts'
import type { Io } from '../terminal.ts'

export const isInteractive = ({ input, err }: Io): boolean => input.isTTY === true && err.isTTY === true

type Prompts = typeof import('@clack/prompts')
const streams = (io: Io): { input: NodeJS.ReadStream; output: NodeJS.WriteStream } => ({
  input: io.input,
  output: io.err as NodeJS.WriteStream,
})

/** Loaded when something is asked: most commands ask nothing. */
async function prompt<T>(ask: (prompts: Prompts) => Promise<T>): Promise<Exclude<T, symbol>> {
  const prompts = await import('@clack/prompts')
  const answer = await ask(prompts)
  if (prompts.isCancel(answer)) throw new Interrupted()
  return answer as Exclude<T, symbol>
}

export const askText = (io: Io, message: string, usual = ''): Promise<string> =>
  prompt(({ text }) => text({ message, ...(usual === '' ? {} : { placeholder: usual, defaultValue: usual }), ...streams(io) })).then(
    (answer) => answer ?? '',
  )

export const askSecret = (io: Io, message: string): Promise<string> => prompt(({ password }) => password({ message, ...streams(io) }))
