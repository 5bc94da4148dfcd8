// The Agent SDK: `countersign/agent`.
export { CountersignError } from '../errors.ts'
export type { Ask, AskOptions, Choice } from './ask.ts'
export type { Delegated, DelegateOptions } from './delegate.ts'
export type { CommitOptions, Content, Delivered } from './deliver.ts'
export { DelegationFailed, Ended, Rejected, type EndReason, type Resolution } from './errors.ts'
export type { RunDocument, Steer } from './job.ts'
export type { LedgerOptions, LedgerWriteOptions, Run, Task } from './run.ts'
export { serve, type Card, type Handler, type ServeOptions, type Serving } from './serve.ts'
