// Every clause of HCP 1.0 that a harness can keep or break, in the order of its layers, and our answers if it is silent (C1 to C40). Each
// row names the tests that show it, by file and title.
import type { Shown } from './hxp.ts'

type Cited = readonly (readonly [string, string])[]
const under =
  (clause: string) =>
  (id: string, text: string, ...shown: Cited): Shown => ({ id, clause, text, shown })

const l1 = under('L1 Transport and Encoding')
const l2 = under('L2 Session and Lifecycle')
const l3 = under('L3 Safety and Contract')
const l4 = under('L4 Task')
const ours = under('Our choices')

const wire = (title: string) => ['protocols/harness/message-decoder', title] as const
const gate = (title: string) => ['protocols/harness/gate', title] as const
const callee = (title: string) => ['protocols/harness/sessions', title] as const
const caller = (title: string) => ['protocols/harness/callers', title] as const
const rights = (title: string) => ['bridges/hcp/broker-rights', title] as const
const broker = (title: string) => ['bridges/hcp/exchange', title] as const
const faults = (title: string) => ['faults/crash-harness', title] as const
const library = (title: string) => ['apps/harness', title] as const

const READ = wire('an encoded message decodes to the same message')
const PROPERTIES = wire('properties that say something else than the envelope are invalid_message, and absent ones are taken from it')
const FUZZ = wire('any bytes decode to an envelope or a reason, and never throw')
const STATES = ['protocols/harness/states', 'every pair of states is an edge of the table or refused'] as const
const ENDS = ['protocols/harness/states', 'nothing leaves an end, and every state leads to one'] as const
const PAIRS = gate('the first of two failing checks is the answer')
const PEOPLE = gate('people are asked by the flag, from R4 on, from where the policy asks, and for T4')
const AT_ONCE = callee('immediate acceptance: task_accepted, then session_created with number 1, and both carry the token')
const AFTER_WAIT = callee('after a wait: awaiting_human first, then task_accepted and session_created with number 2')
const REJECTED = callee('immediate rejection sends task_rejected alone, and a rejection after a wait session_closed as well')
const NUMBERS = callee('numbers have no gaps, and session_closed is the last')
const AGAIN = callee('a submission that comes again is answered with the same bytes, and another under its id is put aside')
const SPOOFED = callee('a spoofed caller is answered where it really is, and makes no session')
const ABORT = callee('an abort lasts until the work is put down, at most abort_timeout, and is neither completed nor failed')
const ARTIFACTS = callee('artifacts are fetched with the token of the session or a ticket, and their access is written down')
const SEALED = callee('confidential data is sealed everywhere, and handed out to those who are allowed to read it')
const GAP = caller('a gap holds what is behind it for its time, is noted, and what comes late is kept and moves nothing')
const FORGED = caller('messages of others than the callee are forged, and without a sender unauthorized')
const WHOLE = broker('a task is accepted, reported on and completed, and both sides say the same')
const DEAD = broker('an unacceptable message goes to the dead letters with its reason, and nothing waits behind it')
const KILLED_BROKER = broker('the broker is killed under load: every event comes, once and in order')
const CUT = faults('connections are cut at each step of AMQP, on either side')
const LOCKED = rights('locked harnesses are served by what the operator made, and bind nothing of others')

export const hcpRows: readonly Shown[] = [
  l1('L1-envelope', 'the six fields of the envelope, UTF-8 JSON, one object', READ, FUZZ),
  l1('L1-properties', 'AMQP properties mirror the envelope', READ, PROPERTIES),
  l1('L1-types', 'two commands, five answers, each in its own direction', READ, DEAD),
  l1('L1-topology', 'exchanges, queues, bindings and routing keys have their names, declared by every harness', WHOLE, LOCKED, AT_ONCE),
  l1(
    'L1-persistent',
    'persistent messages, publisher confirms, mandatory',
    KILLED_BROKER,
    rights('a message that names another user is refused by the broker'),
  ),
  l1('L1-ack', 'acknowledged by hand, after the message is durable here', CUT, KILLED_BROKER),
  l1(
    'L1-retry',
    'without an answer the same message_id is published again',
    caller('without an answer the same message goes out again, and a rejection ends it'),
    CUT,
  ),
  l1(
    'L1-dedup',
    'the callee deduplicates by message_id, and so does the caller',
    AGAIN,
    caller('an answer that comes again is a duplicate, and one with another payload under its id is put aside'),
  ),
  l1('L1-reconnect', 'a broken connection is made anew, and nothing is lost', CUT, KILLED_BROKER),
  l1('L1-quorum', 'quorum queues where high availability is wanted', rights('quorum queues are declared as such, and serve')),
  l1('L1-tls', 'amqps, with client certificates', rights('amqps requires a client certificate')),
  l1(
    'L1-size',
    'binary data and large data are referenced, never embedded',
    caller('a submission that is too large for a message is refused on submit'),
  ),
  l2(
    'L2-properties',
    'the properties of a session are shown, and the token never is',
    callee('a session shows neither its token nor what is sealed of it'),
  ),
  l2('L2-states', 'the state machine', STATES, ENDS),
  l2('L2-events', 'nine types of events with their data', NUMBERS, callee('events whose data is not what their type asks for are refused')),
  l2('L2-sequence', 'strictly increasing numbers, without gaps', NUMBERS, caller('sequences that are none are put aside')),
  l2(
    'L2-order',
    'the caller restores the order, and processes each once',
    caller('events that come in another order are put in order'),
    caller('it is followed by either id, in order, each event once'),
  ),
  l2('L2-interleaving', 'sessions at once do not mix', caller('concurrent sessions do not mix')),
  l2(
    'L2-recovery',
    'a callee that restarts goes on from its last checkpoint',
    callee('a new attempt says recovered_from_checkpoint before anything else, and the old one is refused'),
  ),
  l2(
    'L2-timeout',
    'beyond max_duration FAILED with timeout',
    callee('beyond its time a session fails with timeout, from PAUSED by RUNNING'),
  ),
  l2(
    'L2-abort',
    'ABORTING, clean-up bounded by abort_timeout, ABORTED, session_closed',
    ABORT,
    library('an abort waits for the clean-up of the work'),
  ),
  l3(
    'L3-declaration',
    'capabilities are declared with schemas, safety and constraints',
    callee('a declaration is on the card of its agent and in discovery until it is withdrawn'),
  ),
  l3(
    'L3-risk',
    'the floor, raised by inputs and context',
    gate('rules raise and never lower, and one that cannot be judged raises'),
    gate('hours over midnight, 24:00, and other work on a resource raise'),
  ),
  l3(
    'L3-permission',
    'the caller may use the capability, up to its risk and class',
    PAIRS,
    callee('a started session keeps the permissions and the declaration that it started with'),
  ),
  l3('L3-classes', 'T2 is logged, T3 sealed, T4 approved', ARTIFACTS, SEALED, callee('T4 always asks a person')),
  l3(
    'L3-envelope',
    'the safety envelope is the callee’s, and checked before each step',
    callee('the guard allows what the envelope allows, and nothing that it does not name'),
  ),
  l3(
    'L3-approval',
    'people approve before anything starts',
    AFTER_WAIT,
    callee('agents answer nothing, and neither does a person who is not asked'),
  ),
  l3(
    'L3-token',
    'a token that is bound to caller, session and time',
    AT_ONCE,
    callee('an abort is its caller’s alone, with its own token if it shows one'),
  ),
  l3('L3-rejected', 'a rejection says what to change, by path and bound', gate('a rejection for risk names the path and the bound')),
  l4(
    'L4-submit',
    'all fields of a submission',
    caller('the submission has the id of its message, and its payload says all that was given'),
    gate('ranges, durations, schemas and snapshots that are none are invalid_input'),
  ),
  l4(
    'L4-expected',
    'outputs are checked before completion',
    callee('outputs that are not what was asked for are refused, and change nothing'),
    caller('outputs that are not what was asked for are kept, and said to be'),
  ),
  l4('L4-artifacts', 'artifacts with uri, size and checksum', ARTIFACTS, library('artifacts of a callee are fetched over HTTP')),
  l4(
    'L4-failure',
    'six codes, details, partial results',
    callee('a failure carries its code, partial outputs, the last snapshot and whether it may be retried'),
  ),
  l4('L4-summary', 'the execution summary is filled here', NUMBERS, WHOLE),
  ours('C1', 'floor and ceiling', gate('the floor is R1, R4 for physical resources, or what is declared')),
  ours('C2', 'flag or R4, R5 two people', PEOPLE, callee('R5 needs two of the approvers, and fewer than two are refused at declare')),
  ours(
    'C3',
    'a wait is seen, and can be aborted',
    AFTER_WAIT,
    callee('an abort while people are asked ends immediately, and later answers count for nothing'),
  ),
  ours(
    'C4',
    'in_reply_to names the submission',
    AT_ONCE,
    AFTER_WAIT,
    caller('the header alone can name the submission of a message, and the wait for people is shown before any answer'),
  ),
  ours('C5', 'user_id is required, ids have no dots', SPOOFED, callee('ids with dots, stars or capitals are none')),
  ours('C6', 'no TTL and no dropping', LOCKED),
  ours('C7', 'a poisoned message does not go round forever', DEAD, GAP),
  ours('C8', 'only events are numbered', NUMBERS),
  ours(
    'C9',
    'the token in an abort is optional where senders are proven',
    callee('an abort is its caller’s alone, with its own token if it shows one'),
    callee('without proof of senders an abort needs the token'),
  ),
  ours('C10', 'what the token says', AT_ONCE),
  ours('C11', 'no unlisted edges', ENDS, ABORT),
  ours('C12', 'only the callee pauses', NUMBERS),
  ours('C13', 'one store behind a command queue', AGAIN),
  ours(
    'C14',
    'artifacts over HTTP, retryable, resume_from',
    ARTIFACTS,
    callee('a failure carries its code, partial outputs, the last snapshot and whether it may be retried'),
  ),
  ours('C15', 'answers come from the callee’s own inbox', AFTER_WAIT),
  ours('C16', 'the order of messages', AT_ONCE, AFTER_WAIT, REJECTED, NUMBERS),
  ours('C17', 'forged answers', FORGED),
  ours('C18', 'the order of the gate', PAIRS, gate('a caller without permission learns nothing about the capability')),
  ours(
    'C19',
    'answers without a session, bounded for each stranger',
    SPOOFED,
    wire('a task_rejected without a session is taken, with null and with none'),
    callee('a broker user without rights gets a bounded number of answers, sessions and attempts'),
    broker('a broker user without rights and without a queue fills neither the outbox nor the log'),
  ),
  ours('C20', 'properties against the envelope', PROPERTIES),
  ours(
    'C21',
    'another version; the sender of what cannot be read is told',
    FUZZ,
    callee('the sender of an unreadable submission gets an answer if it is allowed to submit here'),
  ),
  ours(
    'C22',
    'dead letters with their reasons; a sender of unknown sessions holds up no other',
    DEAD,
    caller('a sender has room for as many unknown sessions as it has submissions to answer, and each for a bounded number of messages'),
    broker('a callee that never answers, and sends events of unknown sessions, delays no other one'),
  ),
  ours(
    'C23',
    'recovery without a gap',
    callee('a new attempt says recovered_from_checkpoint before anything else, and the old one is refused'),
    faults('either side is killed at each step'),
  ),
  ours('C24', 'the first answer, byte for byte', AGAIN),
  ours('C25', 'limits are a policy with reject-publish', LOCKED),
  ours(
    'C26',
    'the tables win, and unknown types of events are kept',
    caller('unknown types of events are kept, and moves that are no edges move nothing'),
  ),
  ours(
    'C27',
    'gaps are held, noted, and late events marked',
    GAP,
    caller('events that arrive after the end are kept as late, are none of the session’s events, and move nothing'),
    caller('an event that the outcome has overtaken is an event of the session, unless nothing closes the session in time'),
  ),
  ours(
    'C28',
    'locked topology',
    LOCKED,
    rights('harnesses that declare for themselves read no topic of others'),
    rights('exchanges that another harness deletes are made again, and so are the bindings'),
  ),
  ours(
    'C29',
    'T3 and T4 need TLS or the loopback; T4 asks',
    gate('confidential data is refused on an unencrypted connection, for every caller'),
    callee('T4 always asks a person'),
  ),
  ours('C30', 'a policy asks earlier, never later', PEOPLE),
  ours(
    'C31',
    'the shorter duration; all open sessions count',
    AT_ONCE,
    callee('the declaration bounds the sessions, also for two concurrent submissions'),
  ),
  ours('C32', 'the vhost of the URL is used', WHOLE),
  ours('C33', 'a timeout never approves', callee('a timeout never approves')),
  ours(
    'C34',
    'unroutable submissions end',
    caller('a submission that no queue takes ends as unroutable'),
    broker('an unknown harness, one without permission, and a task that is too risky are refused with a reason'),
  ),
  ours('C35', 'the item that asks', AFTER_WAIT, callee('agents answer nothing, and neither does a person who is not asked')),
  ours('C36', 'shapes of guard, snapshot, lists', callee('the guard allows what the envelope allows, and nothing that it does not name')),
  ours('C37', 'ends', ABORT, caller('an abort before any answer goes out once the session is known, with its token')),
  ours('C38', 'a url with a ticket beside the uri', ARTIFACTS),
  ours('C39', 'sealed at rest', SEALED),
  ours('C40', 'kept for a week and more', AGAIN),
]
