// The ports between protocols. Each protocol fills in its own (`ports` of `Protocol`) from documents whose types it knows, so that none imports
// another, and none reads a document of another with a wrong type.
import type { Calls, Policies } from './gate.ts'
import type { Names } from './names.ts'
import type { Signing } from './passkeys.ts'
import { Refusal } from '../declare/errors.ts'
import type { Requests } from './requests.ts'
import type { Runs } from './runs.ts'
import type { Tasks } from './tasks.ts'

export type Ports = {
  readonly calls: Calls
  readonly policies: Policies
  readonly names: Names
  readonly passkeys: Signing
  readonly requests: Requests
  readonly runs: Runs
  readonly tasks: Tasks
}

const resolveNull = (): Promise<null> => Promise.resolve(null)
const absent = (): never => {
  throw new Error('no protocol of this kernel has tasks')
}
/** The ports without any protocol behind them. */
const none: Ports = {
  calls: { call: resolveNull, longArguments: resolveNull, suspended: () => Promise.resolve([]) },
  passkeys: {
    checked() {
      throw new Refusal('UNAVAILABLE', 'no protocol of this kernel keeps passkeys')
    },
  },
  policies: {
    gate: () => Promise.resolve([]),
    ofScope: resolveNull,
    passkeyFrom: resolveNull,
    group: resolveNull,
    unmet: resolveNull,
    mayGrant: () => Promise.resolve(true),
  },
  names: {
    named: resolveNull,
    groupLinks: () => Promise.resolve([]),
    receiptKeys: () => Promise.resolve([]),
    projects: () => Promise.resolve([]),
  },
  requests: {
    request: resolveNull,
    cases: () => Promise.resolve([]),
    answer: resolveNull,
    receipt: resolveNull,
    itemOfCheckpoint: resolveNull,
    itemOfReview: resolveNull,
  },
  runs: { run: resolveNull, work: resolveNull, card: resolveNull, running: () => Promise.resolve(0), attempt: resolveNull },
  tasks: {
    task: resolveNull,
    seenTask: absent,
    hasVersion: () => Promise.resolve(false),
    checkpoint: resolveNull,
    amendments: () => Promise.resolve([]),
  },
}

export const portsOf = (protocols: readonly { readonly ports?: Partial<Ports> }[]): Ports =>
  Object.assign({}, none, ...protocols.map(({ ports }) => ports)) as Ports
