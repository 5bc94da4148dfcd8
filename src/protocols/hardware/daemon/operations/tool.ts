// Tools of a session (HACP hardware draft, 3.3): the tools of its policy, also above its cap.
import { anyone } from '#kernel/declare/access.ts'
import { query } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import type { DaemonPorts } from '../ports.ts'
import { allowsTool } from '../policy.ts'
import { Id } from '../schema.ts'
import { shownTool } from '../tools.ts'
import { openSession, policyFor } from './session.ts'

const list = (ports: DaemonPorts) =>
  query({
    name: 'tool.list',
    summary: 'List the tools that the policy of the session allows.',
    draft: 'HACP hardware draft, 3.3: tool.list',
    input: t.Object({ session_id: Id }),
    output: t.Object({ tools: t.Array(t.Object({}, { additionalProperties: true })) }),
    callers: [anyone],
    async load(read, { session_id }, { actor }) {
      await openSession(read, session_id, actor)
      return policyFor(ports, actor)
    },
    view: (policy) => ({ tools: [...ports.tools()].filter((tool) => allowsTool(policy, tool)).map(shownTool) }),
    example: { given: 'session', as: 'client', input: ({ session_id }) => ({ session_id }) },
  })

export const toolOperations = (ports: DaemonPorts) => [list(ports)]
