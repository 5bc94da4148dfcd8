// Every MUST and MUST NOT of the HACP 0.1.0 draft, one row each, in the order of the text; tables of the draft are taken row for
// row. A row in brackets behind its clause comes from a table, not from a sentence.
import type { Requirement } from '../support/laws/requirements.ts'

const under =
  (clause: string) =>
  (id: string, text: string, later?: Requirement['later']): Requirement =>
    later ? { id, clause, text, later } : { id, clause, text }

const roles = under('Roles')
const objects = under('First-Class Objects')
const immutability = under('Immutability')
const identifiers = under('Identifiers')
const task = under('Task')
const states = under('Task State Machine')
const holders = under('State ownership')
const checkpoint = under('Checkpoint')
const ownership = under('Ownership')
const review = under('Review')
const artifact = under('Artifact')
const ledger = under('Ledger')
const audit = under('Audit')
const operations = under('Operations')
const preconditions = under('Operation Preconditions')
const actions = under('Audit Actions')
const layers = under('Inter-layer Contracts')
const errors = under('Errors')
const flow = under('Reference Flow')
const conformance = under('Conformance')

export const hacpRows: readonly Requirement[] = [
  roles('H-ROLE-01', 'The principal MUST be human.'),
  roles('H-ROLE-02', 'The principal MUST NOT change during task lifetime.'),
  roles('H-ROLE-03', 'The reviewer MUST be human.'),
  roles('H-ROLE-04', 'The assignee MAY be a human or an agent; the reviewer MAY differ from the principal.'),

  objects('H-OBJ-01', 'A conforming implementation MUST support all seven first-class objects.'),

  immutability('H-IMM-01', 'Task spec MUST NOT change after task.create.'),
  immutability('H-IMM-02', 'Artifact versions MUST NOT change after artifact.commit.'),
  immutability('H-IMM-03', 'Review records MUST NOT change after review.submit.'),
  immutability('H-IMM-04', 'Ledger entries MUST NOT be deleted.'),
  immutability('H-IMM-05', 'Audit events MUST NEVER be deleted or modified.'),

  identifiers('H-ID-01', 'Identifiers MUST use ULID-compatible entropy.'),
  identifiers('H-ID-02', 'Identifiers MUST be sortable.'),
  identifiers('H-ID-03', 'Identifiers MUST carry the prefixes task_, ckpt_, rev_, art_, led_, aud_.'),
  identifiers('H-ID-04', 'Timestamps MUST use RFC 3339 UTC.'),

  task('H-TASK-01', 'A task has the fields of the draft, and its spec those of TaskSpec.'),
  task('H-TASK-02', 'spec MUST be immutable after creation.'),
  task('H-TASK-03', 'ownership.principal MUST be set at creation and MUST NEVER change.'),
  task('H-TASK-04', 'state transitions MUST follow the Task state machine.'),

  states('H-STATE-01', 'created -> assigned by task.assign.'),
  states('H-STATE-02', 'assigned -> in_progress when the agent starts work.'),
  states('H-STATE-03', 'in_progress -> blocked by checkpoint.raise.'),
  states('H-STATE-04', 'blocked -> in_progress by checkpoint.resolve with approve or provide.'),
  states('H-STATE-05', 'blocked -> completed by checkpoint.resolve with reject.'),
  states('H-STATE-06', 'in_progress -> review_ready by artifact.commit.'),
  states('H-STATE-07', 'review_ready -> under_review when review.submit begins review.'),
  states('H-STATE-08', 'under_review -> in_progress by review.submit with changes requested.'),
  states('H-STATE-09', 'under_review -> accepted by review.submit with approved.'),
  states('H-STATE-10', 'under_review -> rejected by review.submit with rejected.'),
  states('H-STATE-11', 'accepted -> completed, automatically.'),
  states('H-STATE-12', 'created, assigned, in_progress, blocked -> completed by task.cancel.'),
  states('H-STATE-13', 'Only the listed transitions are valid.'),

  holders('H-HOLD-01', 'created: the principal is the assignee.'),
  holders('H-HOLD-02', 'assigned: the agent is the assignee.'),
  holders('H-HOLD-03', 'in_progress: the agent is the assignee.'),
  holders('H-HOLD-04', 'blocked: the principal is the assignee.'),
  holders('H-HOLD-05', 'review_ready: the principal is the assignee.'),
  holders('H-HOLD-06', 'under_review and accepted: the principal is the assignee.'),
  holders('H-HOLD-07', 'completed: the principal is the assignee.'),

  checkpoint('H-CKPT-01', 'A checkpoint has the fields of the draft and one of four kinds.'),
  checkpoint('H-CKPT-02', 'resolution.by MUST be a principal or authorized reviewer.'),
  checkpoint('H-CKPT-03', 'checkpoint.raise MUST move the task to blocked.'),
  checkpoint('H-CKPT-04', 'checkpoint.resolve MUST resolve the checkpoint before resuming work.'),
  checkpoint('H-CKPT-05', 'Expiration MUST emit an audit event.'),

  ownership('H-OWN-01', 'Ownership has the fields of the draft.'),
  ownership('H-OWN-02', 'Every assignee change MUST append to chain.'),
  ownership('H-OWN-03', 'Every transfer MUST correspond to a valid protocol event; via is one of five words.'),
  ownership('H-OWN-04', 'If delegable=false, an agent MUST NOT call ownership.delegate.'),

  review('H-REV-01', 'Reviews MUST be immutable after submission.'),
  review('H-REV-02', 'reviewer MUST be human.'),
  review('H-REV-03', 'requested_changes MUST be present when verdict is changes_requested.'),
  review('H-REV-04', 'A review has the fields of the draft, its comments one of four severities.'),

  artifact('H-ART-01', '(id, version) MUST be globally unique.'),
  artifact('H-ART-02', 'Artifact references MUST lock both id and version.'),
  artifact('H-ART-03', 'checksum MUST verify payload integrity.'),
  artifact('H-ART-04', 'Updating an artifact MUST create a new version with parent_version.'),
  artifact('H-ART-05', 'An artifact has the fields of the draft.'),

  ledger('H-LED-01', 'Ledger entries MUST NEVER be deleted.'),
  ledger('H-LED-02', 'Rewriting a logical key MUST append a new entry.'),
  ledger('H-LED-03', 'Every write MUST emit an audit event.'),
  ledger('H-LED-04', 'A ledger and its entries have the fields of the draft; by is the task.'),

  audit('H-AUD-01', 'Every state-changing protocol operation MUST produce an audit event.'),
  audit('H-AUD-02', 'Audit events MUST NEVER be deleted or modified.'),
  audit('H-AUD-03', 'seq MUST be monotonically increasing within its audit scope.'),
  audit('H-AUD-04', 'An audit event has the fields of the draft, with the object before and after.'),

  operations('H-OP-01', 'A conforming implementation MUST support all 21 operations.'),
  operations('H-OP-02', 'task.create, task.assign and task.cancel are for the principal.'),
  operations('H-OP-03', 'checkpoint.raise, artifact.commit and ownership.delegate are for the agent.'),
  operations('H-OP-04', 'checkpoint.resolve is for a human; review.submit and review.comment for a reviewer.'),
  operations('H-OP-05', 'checkpoint.expire and ownership.transfer are for the system.'),
  operations('H-OP-06', 'artifact.reference and ledger.write are for the task.'),
  operations('H-OP-07', 'task.get, task.list, artifact.get, ledger.read, ledger.history, audit.query, audit.replay: any authorized actor.'),

  preconditions('H-PRE-01', 'Violations MUST return PRECONDITION_FAILED.'),
  preconditions('H-PRE-02', 'task.assign: task state is created.'),
  preconditions('H-PRE-03', 'task.cancel: task state is created, assigned, in_progress or blocked.'),
  preconditions('H-PRE-04', 'checkpoint.raise: task state is in_progress.'),
  preconditions('H-PRE-05', 'checkpoint.resolve: checkpoint is pending and caller is authorized.'),
  preconditions('H-PRE-06', 'ownership.delegate: ownership.delegable == true.'),
  preconditions('H-PRE-07', 'artifact.commit: task state is in_progress or review rework state.'),
  preconditions('H-PRE-08', 'review.submit: task state is review_ready or under_review.'),

  actions('H-ACT-01', 'State-changing operations MUST map to audit actions, as the table says.'),

  layers('H-LAY-01', 'task.assign -> agent.delegate: TaskID MUST become Run.correlation_id.'),
  layers('H-LAY-02', 'checkpoint.raise -> agent.block: the corresponding run MUST enter blocked.'),
  layers('H-LAY-03', 'checkpoint.resolve -> agent.resume: resolution MUST be passed to the run.'),
  layers('H-LAY-04', 'ownership.delegate -> agent.delegate: parent run SHOULD remain traceable.'),
  layers('H-LAY-05', 'ownership.transfer -> agent.handoff: correlation MUST be preserved.'),
  layers('H-LAY-06', 'HACP MUST NOT directly invoke CAP capabilities.'),
  layers('H-LAY-07', 'It references capabilities only through CapabilityRef.'),

  errors('H-ERR-01', 'INVALID_SPEC: task spec is invalid.'),
  errors('H-ERR-02', 'PRECONDITION_FAILED: operation precondition failed.'),
  errors('H-ERR-03', 'UNAUTHORIZED: caller is not authorized.'),
  errors('H-ERR-04', 'NOT_FOUND: object does not exist.'),
  errors('H-ERR-05', 'CONFLICT: concurrent mutation conflict.'),
  errors('H-ERR-06', 'IMMUTABLE_VIOLATION: attempt to mutate immutable object.'),
  errors('H-ERR-07', 'DEADLINE_EXCEEDED: task deadline exceeded.'),
  errors('H-ERR-08', 'CHECKPOINT_EXPIRED: checkpoint can no longer be resolved.'),
  errors('H-ERR-09', 'State transition, ownership update and audit append SHOULD be atomic.'),
  errors('H-ERR-10', 'Bad input is refused with its code and changes nothing.'),

  conformance('H-CONF-01', 'MUST satisfy the inter-layer contracts when used in a full Loops stack.'),

  flow('H-FLOW-01', 'Create, assign, checkpoint, resolve, commit, changes, commit, approve, ledger.write: as the figure shows.'),
  flow('H-FLOW-02', 'audit.replay reconstructs the flow.'),
]
