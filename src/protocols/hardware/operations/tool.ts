// Tools of a session (HACP hardware draft, 3.3): those of its policy, also above its cap.
import { anyone } from '#kernel/declare/access.ts'
import { query } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import type { Desk } from '../daemon/desk.ts'
import { allowsTool } from '../daemon/policy.ts'
import { Id } from '../daemon/schema.ts'
import { shownTool } from '../daemon/tools.ts'
import { openSession, policyFor } from './session.ts'

const list = (desk: Desk) =>
  query({
    name: 'tool.list',
    summary: 'List the tools that the policy of the session allows.',
    draft: 'HACP hardware draft, 3.3: tool.list',
    input: t.Object({ session_id: Id }),
    output: t.Object({ tools: t.Array(t.Object({}, { additionalProperties: true })) }),
    callers: [anyone],
    async load(read, { session_id }, { actor }) {
      await openSession(read, session_id, actor)
      return policyFor(desk, actor)
    },
    view: (policy) => ({ tools: [...desk.tools()].filter((tool) => allowsTool(policy, tool)).map(shownTool) }),
    example: { given: 'session', as: 'client', input: ({ session_id }) => ({ session_id }) },
  })

export const toolOperations = (desk: Desk) => [list(desk)]
