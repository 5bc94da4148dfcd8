// The harness library: `countersign/harness`. Two programs with RabbitMQ between them, each with a folder that keeps everything.
export { createCallee, type Approval, type Asked, type Callee, type CalleeCapability, type CalleeOptions } from './harness/callee.ts'
export {
  createCaller,
  SessionEnded,
  type Accepted,
  type Caller,
  type Result,
  type SessionEvent,
  type SessionView,
  type Submitted,
  type SubmittedTask,
} from './harness/caller.ts'
export type { HarnessOptions } from './harness/harness.ts'
export type { ArtifactGiven, CalleeSession, Guarded } from './harness/session.ts'
