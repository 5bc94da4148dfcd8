// The session of a command-line agent, continued between the runs of one task by the agent's own flags. `{session}` in the command is
// the place of these flags; a command without it begins a new session each time.
import { randomUUID } from 'node:crypto'
import { findSession, noteSession } from '../acp/sessions.ts'
import type { Plan, Port } from './conversation.ts'
import type { MailboxItem } from './lines.ts'
import type { Profile } from './profiles.ts'

export const SESSION = '{session}'
/** An id becomes an argument of a command, so it must not look like an option. */
const ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/

export type KeptSession = {
  readonly argv: readonly string[]
  readonly output: Profile['output']
  /** Notes the session for the next run. A session that could not be continued is given up. */
  conclude(printed: string, isGood: boolean): Promise<void>
}

export async function openKeptSession({ argv, profile, cwd, isFresh = false }: Plan, port: Port, item: MailboxItem): Promise<KeptSession> {
  const { session } = profile
  const place = argv.indexOf(SESSION)
  if (session === undefined || place < 0) return { argv, output: profile.output, conclude: async () => undefined }
  const program = argv.join(' ').slice(0, 500)
  const found = await findSession(port, item.run, isFresh)
  const fits = found !== null && found.session.folder === cwd && found.session.program === program && ID.test(found.session.session_id)
  const known = fits ? found.session.session_id : null
  const session_id = known ?? (session.begin === null ? null : randomUUID())
  const flags = known !== null ? session.resume : session_id === null ? [] : session.begin!
  const note = (session_id: string): Promise<void> => {
    const noted = { session_id, folder: cwd, program, at: new Date().toISOString(), snapshot: null }
    return noteSession(port, item.run.id, item.attempt, noted)
  }
  // The id is durable before the program starts.
  if (session_id !== null && !(fits && found.isSameRun)) await note(session_id)
  return {
    argv: [...argv.slice(0, place), ...flags.map((word) => word.replace(SESSION, session_id ?? '')), ...argv.slice(place + 1)],
    output: session.output,
    async conclude(printed, isGood) {
      if (!isGood && known !== null) return note('')
      const printedId = session_id === null && session.idField !== null ? lastTextAt(printed, session.idField) : null
      if (printedId !== null && ID.test(printedId)) await note(printedId)
    },
  }
}

/** The values of a field such as `item.text` in JSON lines, or in one JSON object over several lines, the last first. */
export function* textsAt(printed: string, path: string): Generator<{ readonly text: string; readonly event: Record<string, unknown> }> {
  const start = printed.indexOf('{')
  const whole = start < 0 ? null : objectIn(printed.slice(start))
  const events = whole === null ? printed.split('\n').toReversed().map(objectIn) : [whole]
  for (const event of events) {
    const text = path
      .split('.')
      .reduce<unknown>((at, name) => (typeof at === 'object' && at !== null ? Reflect.get(at, name) : undefined), event)
    if (typeof text === 'string' && event !== null) yield { text, event }
  }
}
const lastTextAt = (printed: string, path: string): string | null => textsAt(printed, path).next().value?.text ?? null

function objectIn(text: string): Record<string, unknown> | null {
  if (!text.trimStart().startsWith('{')) return null
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return null
  }
}
