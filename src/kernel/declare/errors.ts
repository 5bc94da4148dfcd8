// Refusals: expected errors, and the class of each code. Bindings map the class to their own errors.

/** The class of a refusal, the same for every protocol. */
export type Fault =
  | 'invalid'
  | 'unauthenticated'
  | 'forbidden'
  | 'missing'
  | 'conflict'
  | 'gone'
  | 'late'
  | 'unfit'
  | 'too_large'
  | 'quota'
  | 'busy'
  | 'internal'

/** The HTTP status of each class. The SDK sets the same status on refusals from other transports. */
export const statuses: Readonly<Record<Fault, number>> = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  missing: 404,
  conflict: 409,
  gone: 410,
  late: 408,
  unfit: 422,
  too_large: 413,
  quota: 429,
  busy: 503,
  internal: 500,
}

/** The codes of the kernel itself. A protocol adds its own in its `codes.ts`; a code means the same everywhere. */
export const kernelCodes = {
  INVALID_REQUEST: 'invalid',
  UNAUTHENTICATED: 'unauthenticated',
  UNAUTHORIZED: 'forbidden',
  /** The session belongs to a person other than the one for whom the page was opened. */
  OTHER_PERSON: 'forbidden',
  /** On a remembered device, this needs a fresh sign-in. */
  PROOF_REQUIRED: 'forbidden',
  /** The call needs a signature by passkey and has none. */
  PASSKEY_REQUIRED: 'forbidden',
  /** It carries a signature that does not count. */
  ASSERTION_INVALID: 'forbidden',
  READ_ONLY: 'forbidden',
  NOT_FOUND: 'missing',
  CONFLICT: 'conflict',
  PRECONDITION_FAILED: 'conflict',
  TOO_LARGE: 'too_large',
  QUOTA_EXCEEDED: 'quota',
  BUSY: 'busy',
  UNAVAILABLE: 'busy',
  RECORD_CHANGED: 'busy',
  INTERNAL: 'internal',
} as const satisfies Record<string, Fault>

/** An expected error. Any other thrown error is a bug: it is logged with its cause and answered INTERNAL without details. */
export class Refusal extends Error {
  override name = 'Refusal'
  readonly code: string
  readonly details: Readonly<Record<string, unknown>> | undefined
  constructor(code: string, message: string, details?: Readonly<Record<string, unknown>>) {
    // A refusal needs no stack; capturing one costs more than the whole decision.
    const limit = Error.stackTraceLimit
    Error.stackTraceLimit = 0
    super(message)
    Error.stackTraceLimit = limit
    this.code = code
    this.details = details
  }
}

/** Translates a refusal into the codes of the called protocol; its details keep the original code as `field`. */
export const recode =
  (codes: Readonly<Record<string, string>>, field: string) =>
  (refusal: Refusal): Refusal => {
    const code = codes[refusal.code]
    return code === undefined ? refusal : new Refusal(code, refusal.message, { ...refusal.details, [field]: refusal.code })
  }

/** The store cannot read or write at the moment. UNAVAILABLE from any other component says nothing about the store. */
export class StoreUnavailable extends Refusal {
  override name = 'StoreUnavailable'
  constructor(message: string, details: Readonly<Record<string, unknown>>) {
    super('UNAVAILABLE', message, details)
  }
}
/** The store is unavailable: the caller did nothing wrong and should retry. */
export const isAway = (error: unknown): boolean => error instanceof StoreUnavailable

/** The outcome of the commit is unknown: the changes of the call might be stored. */
export const isUnknown = (error: unknown): error is Refusal => error instanceof Refusal && error.details?.['outcome'] === 'unknown'
/** The call certainly changed nothing. */
export const changedNothing = (error: unknown): boolean => error instanceof Refusal && !isUnknown(error)

/** A document or index that the call read was changed before its commit: the kernel loads and decides again. */
export class Conflict extends Refusal {
  override name = 'Conflict'
  readonly key: string
  constructor(key: string, message: string) {
    super('CONFLICT', message)
    this.key = key
  }
}

/** A stored document differs from the record. It is neither acted on nor shown. */
export class Damaged extends Refusal {
  override name = 'Damaged'
  readonly key: string
  readonly what: string
  constructor(key: string, what: string) {
    // Only the log names the document: the caller may have no access to it.
    super('RECORD_CHANGED', 'a stored document differs from the record, so nothing is done with it; `countersign doctor` names it')
    this.key = key
    this.what = what
  }
}
