// Scenes that the examples of this protocol start from. The cast is registered before every scene: alice, rita, bob and the
// installation's owner are people of project_default, mallory is a person of another project, devin and robin are agents of
// alice in project_default.
import type { Step } from '#kernel/declare/operation.ts'
import { exampleCredential } from './passkey/example-credential.ts'

const withKey: Step[] = [{ as: 'admin', call: 'identity/key.issue', input: { subject: 'agent_devin' } }]
const withLogin: Step[] = [{ as: 'admin', call: 'identity/login.issue', input: { user_id: 'user_alice' } }]
const withSession: Step[] = [...withLogin, { as: 'system', call: 'identity/session.open', input: ({ token }) => ({ token }) }]

const withTicket: Step[] = [{ as: 'alice', call: 'identity/ticket.issue', input: {} }]

const substituted: Step[] = [
  { as: 'alice', call: 'identity/substitute.add', input: { person: 'user_alice', substitute: 'user_bob', until: '2026-02-01T00:00:00Z' } },
]

const withPasskey: Step[] = [
  { as: 'alice', call: 'identity/passkey.challenge', input: { operation: 'passkey.add', input: {} } },
  { as: 'alice', call: 'identity/passkey.add', input: ({ challenge }) => ({ credential: exampleCredential(challenge) }) },
]

const withSubject: Step[] = [
  { as: 'admin', call: 'identity/subject.link', input: { user_id: 'user_alice', issuer: 'https://login.example.com', sub: 'alice-7' } },
]

const signedIn: Step[] = [
  { as: 'admin', call: 'identity/subject.link', input: { user_id: 'user_bob', issuer: 'https://login.example.com', sub: 'bob-3' } },
  {
    as: 'system',
    call: 'identity/subject.sign_in',
    input: { issuer: 'https://login.example.com', sub: 'bob-3', groups: ['engineering'] },
  },
]

const configured: Step[] = [
  {
    as: 'admin',
    call: 'identity/config.apply',
    input: {
      name: 'company',
      part: 'installation',
      owns: ['person user_nora'],
      steps: [{ call: 'identity/user.add', input: { id: 'user_nora', name: 'Nora', project_id: null } }],
    },
  },
]

const linkedGroup: Step[] = [
  {
    as: 'system',
    call: 'identity/subject.sign_in',
    input: { issuer: 'https://login.example.com', sub: 'nora-3', create: true, groups: ['engineering'] },
  },
  {
    as: 'admin',
    call: 'identity/group.link',
    input: { project_id: 'project_default', name: 'reviewers', issuer: 'https://login.example.com', claim: 'engineering' },
  },
]

export const scenes = {
  configured,
  empty: [],
  linkedGroup,
  substituted,
  withKey,
  withLogin,
  withPasskey,
  withSession,
  withSubject,
  withTicket,
  signedIn,
}
