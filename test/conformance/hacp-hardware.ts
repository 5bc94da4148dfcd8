// Every MUST, MUST NOT and SHOULD of the HACP hardware draft (Hardware Agent Capability Protocol, May 2026), one row each, in the order of the
// text, with its tables row for row.
import type { Requirement } from '../support/laws/requirements.ts'

const under =
  (clause: string) =>
  (id: string, text: string): Requirement => ({ id, clause, text })

const wire = under('2: wire')
const methods = under('3: core methods')
const tools = under('4: tools')
const lifecycle = under('5: lifecycle')
const errors = under('6: errors')
const audit = under('7: audit')
const events = under('8: events')
const versions = under('9: versions')
const transports = under('10: transports')
const security = under('12: security')
const privacy = under('13: privacy')

export const hardwareRows: readonly Requirement[] = [
  wire('HW-WIRE-01', 'HACP MUST use JSON-RPC 2.0 over UTF-8 encoded JSON.'),
  wire('HW-WIRE-02', 'Each request and response is a single JSON document followed by exactly one LF.'),
  wire('HW-WIRE-03', 'Clients MUST NOT split a single document across multiple LF boundaries.'),
  wire('HW-WIRE-04', 'Servers MUST accept arbitrary whitespace between documents.'),
  wire('HW-WIRE-05', 'id MUST be unique per connection while outstanding.'),
  wire('HW-WIRE-06', 'Strings, integers, or null are allowed; null indicates a notification (no response expected).'),
  wire('HW-WIRE-07', 'session_id MUST be at most 64 bytes drawn from [0-9a-zA-Z_-].'),
  wire('HW-WIRE-08', 'task_id: same constraints as session_id.'),
  wire('HW-WIRE-09', 'Binary payloads MUST be encoded using base64.'),
  wire('HW-WIRE-10', 'Servers MUST ignore unknown fields in params.'),
  wire('HW-WIRE-11', 'Clients MUST ignore unknown fields in result.'),
  wire('HW-WIRE-12', 'New error codes MUST be additive (no re-purposing of existing numbers).'),
  wire('HW-WIRE-13', 'Tool authors SHOULD version breaking-change tools by appending .v2.'),

  methods('HW-CORE-01', 'The six core methods MUST be implemented by every conformant server.'),
  methods('HW-CORE-02', 'task.events SHOULD be there: server-sent task progress.'),
  methods('HW-OPEN-01', 'The server MUST allocate a fresh session_id.'),
  methods('HW-OPEN-02', 'client_name SHOULD be sent.'),
  methods('HW-OPEN-03', 'client_version SHOULD be sent.'),
  methods('HW-CLOSE-01', 'Closing a session MUST cancel any tasks still owned by it.'),
  methods('HW-LIST-01', 'A tool has the fields of the draft; risk_level is 0, 1, 2 or 3.'),
  methods('HW-LIST-02', 'Clients MUST treat unknown additional tool fields as opaque and preserve them when forwarding.'),
  methods('HW-SUB-01', 'Steps run sequentially within a task.'),
  methods('HW-SUB-02', "The server MUST validate every step's tool name and argument schema before returning."),
  methods('HW-SUB-03', 'If any step fails validation, the entire submission is rejected and no step is executed.'),
  methods('HW-SUB-04', "The server MUST reject any step whose tool's risk_level exceeds the session's permitted maximum (default 2)."),
  methods('HW-SUB-05', 'constraints.max_risk_level relaxes it only if the session is permitted to.'),
  methods('HW-GET-01', 'Task status is QUEUED, RUNNING, SUCCESS, FAILED or CANCELLED; a step never QUEUED.'),
  methods('HW-GET-02', 'A failed step MUST include an "error" string.'),
  methods('HW-GET-03', 'The whole task fails fast unless abort_on_step_failure: false was set.'),
  methods('HW-CANCEL-01', 'The task moves to CANCELLED only after the current step yields.'),
  methods('HW-CANCEL-02', 'Servers MUST NOT force-kill a step that has begun a hardware transaction just because cancel arrived.'),

  tools('HW-TOOL-01', 'The reserved namespaces mean what the draft says.'),
  tools('HW-TOOL-02', 'Vendors SHOULD prefix custom namespaces with their reverse-DNS.'),

  lifecycle('HW-LIFE-01', 'Each task progresses QUEUED -> RUNNING -> { SUCCESS | FAILED | CANCELLED }.'),
  lifecycle('HW-LIFE-02', 'Idle sessions SHOULD be reaped after a server-defined time-to-live (default 300 seconds).'),
  lifecycle('HW-LIFE-03', 'Reaping MUST run session.close semantics, including cancelling any in-flight tasks.'),
  lifecycle('HW-LIFE-04', 'A server MUST reject any post-close request that uses the closed session identifier with RPC_SESSION_INVALID.'),

  errors('HW-ERR-01', '-32700: malformed JSON.'),
  errors('HW-ERR-02', '-32600: not a valid request object.'),
  errors('HW-ERR-03', '-32601: unknown method.'),
  errors('HW-ERR-04', '-32602: missing or wrong params.'),
  errors('HW-ERR-05', '-32603: server bug, and nothing else.'),
  errors('HW-ERR-06', '-32000: session_id unknown or expired.'),
  errors('HW-ERR-07', '-32001: task_id unknown for session.'),
  errors('HW-ERR-08', '-32002: step references unregistered tool.'),
  errors('HW-ERR-09', '-32003: allowlist or risk guard rejected.'),
  errors('HW-ERR-10', '-32004: hardware contention.'),
  errors('HW-ERR-11', 'Implementations MAY add codes in -32099 to -32005. They MUST NOT re-use the codes above with different meaning.'),

  audit('HW-AUDIT-01', 'Every accepted task.submit MUST generate an audit event.'),
  audit('HW-AUDIT-02', 'Every step start MUST generate an audit event.'),
  audit('HW-AUDIT-03', 'Every step finish MUST generate an audit event.'),
  audit('HW-AUDIT-04', 'Every session.open and session.close MUST generate an audit event.'),
  audit('HW-AUDIT-05', 'Audit logs SHOULD be append-only and rotation-friendly (newline-delimited JSON).'),

  events('HW-EVENT-01', 'The server sends notifications (no id) with the phases start, progress, finish, task_finish.'),
  events('HW-EVENT-02', 'The subscription ends implicitly when the task reaches a terminal status.'),

  versions('HW-VERSION-01', 'Servers MUST advertise their highest supported version in the session.open result.'),

  transports('HW-WAY-01', "A Unix socket has the permissions 0660, owned by the server's user, with a dedicated group."),
  transports('HW-WAY-02', 'An MCP adapter maps tools/list, tools/call and errors.'),
  transports('HW-WAY-03', "Over TCP with mutual TLS the certificate's subject is mapped to a session policy."),

  security('HW-SEC-01', 'MUST: the set of registered tools is fixed per process; agents cannot install new tools at runtime.'),
  security('HW-SEC-02', 'MUST: file.* and any tool that accepts a path consults a configured allowlist, -32003 on miss.'),
  security('HW-SEC-03', "MUST NOT: a session executes no tool whose risk_level exceeds the session's configured maximum."),
  security('HW-SEC-04', 'Server MUST reject task.submit when internal queues are full.'),
  security('HW-SEC-05', 'SHOULD run as an unprivileged user, joining only the groups required.'),
  security('HW-SEC-06', 'SHOULD apply rate limits per (session_id, tool) pair.'),
  security('HW-SEC-07', 'SHOULD apply per-tool timeouts.'),
  security('HW-SEC-08', 'SHOULD drop privileges and apply syscall filtering before serving.'),
  security('HW-SEC-09', 'Servers MUST NOT expose a proc.exec-style escape hatch in the default tool set.'),
  security('HW-SEC-10', 'Operators that need it MUST opt in explicitly and MUST flag such tools as risk_level: 3.'),
  security('HW-SEC-11', 'Over network transports operators MUST apply mutual TLS or an equivalent authentication mechanism.'),
  security('HW-SEC-12', 'Operators SHOULD use cryptographic chaining to detect tampering after the fact.'),

  privacy('HW-PRIV-01', 'Operators SHOULD treat audit logs as sensitive: arguments stand there as salted hashes, in a file of its group.'),
  privacy('HW-PRIV-02', 'Tools returning personal data MUST be classified at an appropriate risk_level.'),
  privacy('HW-PRIV-03', 'Tools returning personal data SHOULD require explicit operator opt-in.'),
]
