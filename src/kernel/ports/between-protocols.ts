// The ports between protocols. Each protocol fills in its own (`ports` of `Protocol`) from documents whose types it knows, so that none imports
// another and none takes a document of another for something that it is not.
import type { Names } from './names.ts'
import type { Requests } from './requests.ts'
import type { Runs } from './runs.ts'
import type { Tasks } from './tasks.ts'

export type Ports = { readonly names: Names; readonly requests: Requests; readonly runs: Runs; readonly tasks: Tasks }

const nothing = (): Promise<null> => Promise.resolve(null)
const absent = (): never => {
  throw new Error('no protocol of this kernel has tasks')
}
/** Without the protocol that fills a port in, there is nothing behind it. */
const none: Ports = {
  names: { named: nothing, projects: () => Promise.resolve([]) },
  requests: { request: nothing, cases: () => Promise.resolve([]), answer: nothing },
  runs: { run: nothing, work: nothing, card: nothing, running: () => Promise.resolve(0), attempt: nothing },
  tasks: { task: nothing, seenTask: absent, checkpoint: nothing, amendments: () => Promise.resolve([]) },
}

export const portsOf = (protocols: readonly { readonly ports?: Partial<Ports> }[]): Ports =>
  Object.assign({}, none, ...protocols.map(({ ports }) => ports)) as Ports
