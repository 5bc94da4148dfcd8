// Sessions of the daemon (HACP hardware draft, 3.1, 3.2 and 5), and its own starts and stops.
import { Refusal } from '#kernel/declare/errors.ts'
import { anyone, system } from '#kernel/declare/access.ts'
import { image } from '#kernel/declare/facts.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, type Read } from '#kernel/declare/operation.ts'
import { either, nullable, t } from '#kernel/declare/schema.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { daemonFact } from '../events.ts'
import type { DaemonPorts } from '../ports.ts'
import { flagsOf, type Policy } from '../policy.ts'
import { Daemon, DAEMON, Id, Session } from '../schema.ts'

export const PROTOCOL_VERSION = '0.1.0'

/** The open session of this principal. Any other session is reported as absent. */
export async function openSession(read: Read, session_id: string, actor: Actor): Promise<Session> {
  const session = await read.raw(Session, session_id)
  if (session?.state !== 'open' || session.principal !== actor.id) throw invalidSession()
  return session
}
export const invalidSession = (): Refusal =>
  new Refusal('SESSION_INVALID', 'the session is unknown or has ended', { reason: 'open one with session.open' })

export function policyFor(ports: DaemonPorts, actor: Actor): Policy {
  const policy = ports.policyOf(actor.id)
  if (!policy)
    throw new Refusal('NOT_AUTHENTICATED', 'there is no policy for you', {
      reason: 'the operator names a policy for a socket or a subject',
    })
  return policy
}

const SEMVER = '^\\d+\\.\\d+\\.\\d+(?:-[0-9A-Za-z.-]+)?(?:\\+[0-9A-Za-z.-]+)?$'
const Name = t.Optional(nullable(t.String({ maxLength: limits.nameCharsMax })))

const open = (ports: DaemonPorts) =>
  command({
    name: 'session.open',
    summary: 'Open a session; its capability flags are those of the policy.',
    draft: 'HACP hardware draft, 3.1: session.open',
    input: t.Object({
      client_name: Name,
      client_version: Name,
      protocol_version: t.Optional(t.String({ maxLength: 100, pattern: SEMVER, description: 'a semantic version such as 0.1.0' })),
    }),
    output: t.Object({ session_id: t.String(), capabilities: t.Array(t.String()), protocol_version: t.String() }),
    callers: [anyone],
    requires: [],
    audit: 'session.open',
    async load(read, _, { actor }) {
      const policy = policyFor(ports, actor)
      const count = await read.count(Session, 'open', [policy.name])
      if (count >= policy.sessions)
        throw new Refusal('SESSIONS_FULL', `there are ${policy.sessions} sessions already`, {
          reason: `the policy ${policy.name} allows ${policy.sessions} sessions`,
          limit: policy.sessions,
        })
      return { policy }
    },
    decide({ policy }, { client_name = null, client_version = null }, { actor, now, secret }) {
      // The id alone gives access on the same socket, so it is entirely random (W38).
      const id = secret().slice(0, 64)
      const session: Session = {
        id,
        policy: policy.name,
        principal: actor.id,
        client_name,
        client_version,
        state: 'open',
        reason: null,
        opened_at: now,
        closed_at: null,
      }
      const detail = { session_id: id, policy: policy.name, client_name, client_version }
      return {
        facts: [daemonFact('session.open', [image(Session, session)], { detail })],
        atMost: [
          {
            doc: Session,
            index: 'open',
            prefix: [policy.name],
            max: policy.sessions,
            message: `there are ${policy.sessions} sessions already`,
            decidesAgain: true,
          },
        ],
        output: { session_id: id, capabilities: flagsOf(policy, ports.tools()), protocol_version: PROTOCOL_VERSION },
      }
    },
    example: { given: 'empty', as: 'client', input: { client_name: 'example', client_version: '1.0.0' } },
  })

const close = command({
  name: 'session.close',
  summary: 'Close a session: its tasks are cancelled, and outputs that it set go to their safe state.',
  draft: 'HACP hardware draft, 3.2: session.close',
  input: t.Object({ session_id: Id }),
  output: t.Object({ ok: t.Boolean() }),
  callers: [anyone],
  requires: [],
  audit: 'session.close',
  load: (read, { session_id }, { actor }) => openSession(read, session_id, actor),
  decide: (session, _, { now }) => closeSession(session, 'closed', now),
  example: { given: 'session', as: 'client', input: ({ session_id }) => ({ session_id }) },
})

function closeSession(session: Session, reason: NonNullable<Session['reason']>, now: string) {
  const next: Session = { ...session, state: 'closed', reason, closed_at: now }
  const detail = { session_id: session.id, policy: session.policy, reason }
  return { facts: [daemonFact('session.close', [image(Session, next)], { detail })], output: { ok: true } }
}

const end = command({
  name: 'session.end',
  summary: 'End a session that was idle for too long, or that a stop ends. The daemon calls it.',
  draft: 'HACP hardware draft, 5: reaping runs session.close semantics',
  input: t.Object({ session_id: Id, reason: either('idle', 'shutdown') }),
  output: t.Object({ ok: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: 'session.close',
  async load(read, { session_id }) {
    const session = await read(Session, session_id)
    if (session.state !== 'open') throw invalidSession()
    return session
  },
  decide: (session, { reason }, { now }) => closeSession(session, reason, now),
  example: { given: 'session', as: 'system', input: ({ session_id }) => ({ session_id, reason: 'idle' }) },
})

const check = query({
  name: 'session.check',
  summary: 'Whether a session is open for this principal.',
  draft: 'ours: the bridge asks it before a method that has no operation',
  input: t.Object({ session_id: Id }),
  output: t.Object({ policy: t.String() }),
  callers: [anyone],
  load: (read, { session_id }, { actor }) => openSession(read, session_id, actor),
  view: ({ policy }) => ({ policy }),
  example: { given: 'session', as: 'client', input: ({ session_id }) => ({ session_id }) },
})

const state = (ports: DaemonPorts, name: 'daemon.start' | 'daemon.stop', running: 'running' | 'stopped') =>
  command({
    name,
    summary: `Record that the daemon ${running === 'running' ? 'starts' : 'stops'}. The daemon calls it.`,
    draft: 'ours: the audit says when nobody could have acted',
    input: t.Object({ version: t.String(), board: t.String() }),
    output: t.Object({}),
    callers: [system],
    requires: [],
    audit: name,
    load: (read) => read.maybe(Daemon, DAEMON),
    decide: (_, { version, board }) => ({
      facts: [
        daemonFact(name, [image(Daemon, { id: DAEMON, device_id: ports.device_id, state: running, version, board })], {
          detail: { version, board },
        }),
      ],
      output: {},
    }),
    example: { given: 'empty', as: 'system', input: { version: '0.1.0', board: 'simulated' } },
  })

const deny = (ports: DaemonPorts) =>
  command({
    name: 'denial.record',
    summary: 'Record that something was denied. The daemon calls it.',
    draft: 'HACP hardware draft, 7, and W41: denials are audited, within bounds',
    input: t.Object({
      code: t.String(),
      method: t.String(),
      tool: t.Optional(t.String()),
      policy: t.String(),
      session_id: t.Optional(t.String()),
      count: t.Optional(t.Integer()),
    }),
    output: t.Object({}),
    callers: [system],
    requires: [],
    audit: 'denied',
    load: (read) => read.maybe(Daemon, DAEMON),
    decide: (daemon, detail) => ({
      facts: [
        daemonFact(
          'denied',
          [image(Daemon, daemon ?? { id: DAEMON, device_id: ports.device_id, state: 'running', version: '', board: '' })],
          {
            detail,
          },
        ),
      ],
      output: {},
    }),
    example: { given: 'empty', as: 'system', input: { code: 'not_allowed', method: 'task.submit', policy: 'default' } },
  })

const checkpoint = (ports: DaemonPorts) =>
  command({
    name: 'audit.checkpoint',
    summary: 'Record a signed checkpoint of the audit. The daemon calls it.',
    draft: 'HACP hardware draft, 7: tamper evidence',
    input: t.Object({ jws: t.String() }),
    output: t.Object({}),
    callers: [system],
    requires: [],
    audit: 'audit.checkpoint',
    load: (read) => read.maybe(Daemon, DAEMON),
    decide: (daemon, { jws }) => ({
      facts: [
        daemonFact(
          'audit.checkpoint',
          [image(Daemon, daemon ?? { id: DAEMON, device_id: ports.device_id, state: 'running', version: '', board: '' })],
          {
            detail: { jws },
          },
        ),
      ],
      output: {},
    }),
    example: { given: 'empty', as: 'system', input: { jws: 'e30.e30.e30' } },
  })

export const sessionOperations = (ports: DaemonPorts) => [
  open(ports),
  close,
  end,
  check,
  state(ports, 'daemon.start', 'running'),
  state(ports, 'daemon.stop', 'stopped'),
  deny(ports),
  checkpoint(ports),
]
