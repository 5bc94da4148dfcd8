// The sealed part of a run's input: it is opened when the run is handed to its agent, and stands nowhere else in plain text.
import type { Notary } from '#kernel/ports/notary.ts'
import type { Request } from '../schema.ts'

/** Each seal stands for a field of the input, or for one below it: `snapshot.state`. */
export async function openedRequest(request: Request, notary: Notary): Promise<Request> {
  const { sealed, ...rest } = request
  if (sealed === undefined) return request
  const input: Record<string, unknown> = { ...rest.input }
  for (const [path, text] of Object.entries(sealed)) {
    const [name, below] = path.split('.') as [string, string?]
    const opened = JSON.parse(await notary.open(text)) as unknown
    input[name] = below === undefined ? opened : { ...(input[name] as object), [below]: opened }
  }
  return { ...rest, input }
}
