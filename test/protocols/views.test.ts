// Views of documents: the fields that each audience sees, as literals. A field that is on neither list here is new, and hidden until it is listed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Capability, manifestView } from '#protocols/delegation/capabilities/manifest.ts'
import { AgentChannel, agentChannelView } from '#protocols/execution/notices/notice.ts'
import { agentView, Request } from '#protocols/execution/schema.ts'
import { personView } from '#protocols/execution/view.ts'
import { Session as HarnessSession } from '#protocols/harness/schema.ts'
import { sessionFields } from '#protocols/harness/session/view.ts'
import { Key, keyView, Session, sessionView } from '#protocols/identity/schema.ts'

type Row = {
  readonly name: string
  readonly view: View
  readonly doc: { readonly schema: Fields }
  readonly seen: string
  readonly hidden: string
}
type Fields = { readonly properties: object }
type View = { readonly schema: Fields; readonly of: (value: never) => object }

const rows: readonly Row[] = [
  {
    name: 'a request for people',
    view: personView,
    doc: Request,
    seen: 'id kind action role priority timeout_seconds fallback agent_id requester project_id label metadata tags payload created_at expires_at status owner people assigned_to assigned_at overdue details_order gone no_decider asked_with risk option_risks floor approval quorum votes claimed_until escalation escalated_at escalated_to called remind_seconds reminders reminded_at asked_until snoozed thread callback task_id root_task_id session_id call_id approvers checkpoint_id artifact asked_by on_expiry notice',
    hidden: 'receipt',
  },
  {
    name: 'a request for agents',
    view: agentView,
    doc: Request,
    seen: 'id kind action role priority timeout_seconds fallback agent_id requester project_id label metadata tags payload created_at expires_at status assigned_to assigned_at overdue no_decider risk option_risks quorum escalation escalated_at remind_seconds reminders reminded_at asked_until thread callback task_id root_task_id session_id call_id checkpoint_id artifact asked_by on_expiry notice',
    hidden: 'owner people gone asked_with details_order floor approval votes claimed_until escalated_to called snoozed approvers receipt',
  },
  {
    name: "an agent's channel for agents",
    view: agentChannelView,
    doc: AgentChannel,
    seen: 'id agent_id kind label disabled created_at removed_at',
    hidden: 'owner',
  },
  {
    name: 'a session of another harness',
    view: sessionFields,
    doc: HarnessSession,
    seen: 'id session_id role state reason waiting_for risk_level data_classification caller_id callee_id submit_id capability created_at updated_at accepted_at ended_at outputs outputs_valid partial_outputs artifacts error error_details execution_summary rejection metadata project_id submitted_by agent_id run_id task_id abort_reason',
    hidden: 'deadline resources sealed',
  },
  {
    name: 'a capability',
    view: manifestView,
    doc: Capability,
    seen: 'capability_id version kind name description input_schema output_schema prompt_template resources required_permissions',
    hidden: 'id source projects withdrawn updated_at',
  },
  {
    name: 'a key',
    view: keyView,
    doc: Key,
    seen: 'id subject project_id label issued_by created_at expires_at revoked_at',
    hidden: 'digest',
  },
  {
    name: 'a session of a person',
    view: sessionView,
    doc: Session,
    seen: 'id user_id created_at seen_at expires_at closed_at browser address remembered by_key command_line',
    hidden: 'digest subject sid proven_at',
  },
]

for (const { name, view, doc, seen, hidden } of rows) {
  test(`${name}: every field is either seen or hidden`, () => {
    const fields = Object.keys(doc.schema.properties)
    assert.deepEqual(fields.toSorted(), [...seen.split(' '), ...hidden.split(' ')].toSorted())
    assert.deepEqual(Object.keys(view.schema.properties), seen.split(' '))
    const whole = Object.fromEntries([...fields, 'young'].map((field) => [field, field]))
    assert.deepEqual(Object.keys(view.of(whole as never)), seen.split(' '))
  })
}
