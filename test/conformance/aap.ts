// Every MUST and MUST NOT of the AAP 0.1.0 draft, one row each, in the order of the text; its tables row for row, and our answers where
// it is silent (A1 to A14).
import type { Requirement } from '../support/laws/requirements.ts'

const under =
  (clause: string) =>
  (id: string, text: string): Requirement => ({ id, clause, text })

const card = under('AgentCard')
const run = under('Run')
const discovery = under('Discovery')
const delegation = under('Delegation')
const blocking = under('Block and Resume')
const handoff = under('Handoff')
const events = under('Event Stream')
const errors = under('Errors')
const layers = under('Inter-layer Contracts')
const conformance = under('Conformance')
const ours = under('Our choices')
const messages = under('Messages (ours)')

export const aapRows: readonly Requirement[] = [
  card('A-CARD-01', 'AgentCard MUST be discoverable through agent.discover.'),
  card('A-CARD-02', 'endpoint MUST NOT be exposed upward to HACP.'),
  card('A-CARD-03', 'capabilities MUST use CAP CapabilityRef values.'),

  run('A-RUN-01', 'A run has the fields of the draft and one of four states.'),
  run('A-RUN-02', 'For HACP-originated work, Run.correlation_id MUST equal Task.id.'),

  discovery('A-DISC-01', 'A conforming L1 MUST support agent.discover.'),
  discovery('A-DISC-02', 'Results MUST include enough endpoint data for the L1 runtime to reach the target agent.'),
  discovery('A-DISC-03', 'HACP callers MUST NOT depend on endpoint details.'),

  delegation('A-DEL-01', 'delegate MUST return a Run handle without waiting for completion.'),
  delegation('A-DEL-02', 'DelegateRequest.task_id MUST become Run.correlation_id.'),
  delegation('A-DEL-03', 'If delegation fails after the run is created, the implementation MUST emit run.failed.'),
  delegation('A-DEL-04', 'If the target agent does not support the requested capability: MUST return CAPABILITY_NOT_SUPPORTED.'),

  blocking('A-BLK-01', 'block MUST include checkpoint_id.'),
  blocking('A-BLK-02', 'A blocked run MUST NOT resume itself.'),
  blocking('A-BLK-03', 'resume MUST carry the HACP checkpoint resolution payload.'),
  blocking('A-BLK-04', 'Invalid state transitions MUST return INVALID_TRANSITION.'),

  handoff('A-HAND-01', 'Handoff creates a new run for the receiving agent.'),
  handoff('A-HAND-02', 'The new run MUST preserve the original correlation_id.'),
  handoff('A-HAND-03', 'The old run SHOULD remain available as read-only history.'),
  handoff('A-HAND-04', 'Handoff is the AAP expression of HACP ownership transfer.'),

  events('A-EVT-01', 'Conforming L1 implementations MUST emit run events.'),
  events('A-EVT-02', 'Every event MUST include correlation_id.'),
  events('A-EVT-03', 'run.blocked MUST identify the HACP checkpoint when the block came from a checkpoint.'),
  events('A-EVT-04', 'AAP events SHOULD be replayable for debugging and audit correlation.'),

  errors('A-ERR-01', 'AGENT_NOT_FOUND: target agent does not exist or is unavailable.'),
  errors('A-ERR-02', 'CAPABILITY_NOT_SUPPORTED: target agent does not declare the requested capability.'),
  errors('A-ERR-03', 'DELEGATION_REFUSED: target agent refused delegated work.'),
  errors('A-ERR-04', 'RUN_NOT_FOUND: run id is invalid.'),
  errors('A-ERR-05', 'INVALID_TRANSITION: run state transition is invalid.'),

  layers('A-LAY-01', 'task.assign -> agent.delegate: TaskID MUST become Run.correlation_id.'),
  layers('A-LAY-02', 'checkpoint.raise -> agent.block: checkpoint_id MUST be provided.'),
  layers('A-LAY-03', 'checkpoint.resolve -> agent.resume: resolution MUST be passed through.'),
  layers('A-LAY-04', 'ownership.delegate -> agent.delegate: parent run SHOULD remain traceable.'),
  layers('A-LAY-05', 'ownership.transfer -> agent.handoff: correlation MUST be preserved.'),
  layers('A-LAY-06', 'AAP MUST NOT depend on the capability transport.'),

  conformance('A-CONF-01', 'MUST support agent.discover, agent.delegate, agent.block, agent.resume and agent.handoff.'),
  conformance('A-CONF-02', 'MUST maintain the run states running, blocked, completed and failed.'),
  conformance('A-CONF-03', 'MUST include correlation_id on every run and run event.'),
  conformance('A-CONF-04', 'MUST preserve HACP TaskID as Run.correlation_id.'),
  conformance('A-CONF-05', 'MUST emit the required event stream.'),
  conformance('A-CONF-06', 'MUST use the defined error semantics.'),

  ours('A1', 'A cancelled or handed-off run ends failed with its reason, and raises no escalation.'),
  ours('A2', 'Every pause has a checkpoint.'),
  ours('A3', 'The run is blocked in the batch of the question; a second block is INVALID_TRANSITION; a successor moves the checkpoint.'),
  ours('A4', 'The primary capability is the first; versions match by semantic versioning.'),
  ours('A5', 'Agents and the runtime get the endpoint; people, services and every view of the record do not.'),
  ours('A6', 'One active root run per task, its delegates below it; a run with a delegate waits.'),
  ours('A7', 'Direct delegate and handoff go by the rules of ownership; block and resume are for the runtime alone.'),
  ours('A8', 'run.started moves the task to in_progress, and the other way round.'),
  ours('A9', 'task.assign surfaces the AAP code in details, and the task stays as it was.'),
  ours('A10', 'A task without a capability is not checked; both filters must fit; runs without a task have an id of their own.'),
  ours('A11', 'A card has its fields; it follows the registration of its agent.'),
  ours('A12', 'Losers of a race over concurrency are told DELEGATION_REFUSED; a resume over the bound is queued until there is a place.'),
  ours('A13', 'A run is queued until it is taken; every run that its agent works on emits run.started once; agents carry last_seen.'),
  ours('A14', 'No cycles; owners of agents read runs without a task; when such a run ends, so does what it delegated.'),
  ours('D5', 'A delegation three deep is found whole by one audit.query on root_task_id, with and without child tasks.'),

  messages('M-ORDER', 'What an agent must know waits for it in the order of the run.'),
  messages('M-LEASE', 'What was taken is held for the time of a lease and comes again after it.'),
  messages('M-ATTEMPT', 'Who takes over begins a new attempt, and the one before is refused everywhere.'),
  messages('M-ONCE', 'A resume takes effect once, however often it is delivered.'),
  messages('M-END', 'A run that ends leaves nothing behind but the word that it has.'),
  messages('M-FOREIGN', 'Another agent’s run, mailbox and notes do not exist.'),
  messages('M-MEMO', 'The first note under a key stays; notes are bounded and forgotten after the end.'),
  messages('M-PUSH', 'What is not pulled is announced on its channel of the outbox, in order.'),
  messages('M-REPORT', 'Harness events become checkpoints and artifacts.'),
]
