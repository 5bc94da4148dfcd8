// Identity: people, agents, projects and credentials, as operations like all others.
import type { Protocol } from '#kernel/declare/operation.ts'
import { events } from './events.ts'
import { scenes } from './examples.ts'
import { agentOperations } from './operations/agent.ts'
import { configOperations } from './operations/config.ts'
import { credentialOperations } from './operations/credential.ts'
import { groupOperations } from './operations/group.ts'
import { keysOperations } from './operations/keys.ts'
import { logOperations } from './operations/log.ts'
import { recordOperations } from './operations/record.ts'
import { passkeyOperations } from './operations/passkey.ts'
import { projectOperations } from './operations/project.ts'
import { sessionOperations } from './operations/session.ts'
import { signInOperations } from './operations/sign-in.ts'
import { subjectOperations } from './operations/subject.ts'
import { substituteOperations } from './operations/substitute.ts'
import { ticketOperations } from './operations/ticket.ts'
import { userOperations } from './operations/user.ts'
import { codes } from './codes.ts'
import { names } from './names.ts'
import { signing } from './passkey/check.ts'

const operations = [
  ...userOperations,
  ...substituteOperations,
  ...agentOperations,
  ...projectOperations,
  ...groupOperations,
  ...credentialOperations,
  ...sessionOperations,
  ...subjectOperations,
  ...signInOperations,
  ...ticketOperations,
  ...passkeyOperations,
  ...keysOperations,
  ...logOperations,
  ...recordOperations,
  ...configOperations,
]
export type IdentityOperation = (typeof operations)[number]

export const identity: Protocol = {
  name: 'identity',
  title: 'Identity: people, agents, projects, credentials',
  version: '1',
  operations,
  events,
  codes,
  scenes,
  ports: { names, passkeys: signing },
}
