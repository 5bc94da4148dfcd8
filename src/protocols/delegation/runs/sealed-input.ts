// The sealed part of a run's input. It is opened when the run is handed to its agent and exists in plain text nowhere else.
import type { Notary } from '#kernel/ports/notary.ts'
import type { Request } from '../schema.ts'

/** The keys of `sealed` name a field of the input, or a nested one such as `snapshot.state`. */
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
