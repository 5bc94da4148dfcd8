// Events of identity, each with the kind of document that it is about.
import { factOf, type Events } from '#kernel/declare/facts.ts'
import { Enrolments, Passkey } from './passkey/documents.ts'
import { AcceptedRecord, Agent, Config, GroupLink, Key, KeyNames, Login, Project, Session, SignedIn, SubjectLink, User } from './schema.ts'

export const events = {
  'user.added': User,
  'user.updated': User,
  'substitute.added': User,
  'substitute.removed': User,
  'agent.added': Agent,
  'agent.updated': Agent,
  'agent.seal_key_set': Agent,
  'project.added': Project,
  'project.joined': [User, Agent],
  'project.left': [User, Agent],
  'key.issued': Key,
  'key.revoked': Key,
  'login.issued': Login,
  'session.opened': Session,
  'session.seen': Session,
  'session.closed': Session,
  'user.signed_in': SignedIn,
  'user.signed_out': Session,
  'subject.linked': SubjectLink,
  'subject.unlinked': SubjectLink,
  'passkey.added': Passkey,
  'passkey.removed': Passkey,
  'passkey.reset': Enrolments,
  'group.linked': GroupLink,
  'group.unlinked': GroupLink,
  'user.grouped': User,
  'keys.recorded': KeyNames,
  'record.accepted': AcceptedRecord,
  'config.applied': Config,
} satisfies Events
export const fact = factOf(events)
