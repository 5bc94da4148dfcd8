// Scenes that the examples and the derived tests of the gate start from: devin, an agent of alice's, calls tools of a file server.
import type { Step } from '#kernel/declare/operation.ts'

const definition = { name: 'read_file', inputSchema: { type: 'object' } }
const read = { server: 'files', tool: 'read_file', arguments: { path: '/tmp/a.txt' }, definition }
const asked: Step[] = [{ as: 'devin', call: 'gate/call.propose', input: read }]
const allowed: Step[] = [{ as: 'devin', call: 'gate/call.propose', input: { ...read, kind: 'resource', definition: null } }]

export const scenes: Readonly<Record<string, readonly Step[]>> = {
  empty: [],
  asked,
  allowed,
  begun: [...allowed, { as: 'devin', call: 'gate/call.begin', input: ({ call_id, digest }) => ({ call_id, digest }) }],
  suspended: [
    {
      as: 'owner',
      call: 'execution/policy.set',
      input: { installation: true, gate: { version: 1, rules: [{ id: 'reads', tool: 'files/read_*', then: 'allow', sample: 1 }] } },
    },
    ...asked,
    { as: 'alice', call: 'execution/request.resolve', input: ({ request_id }) => ({ request_id, result: 'rejected' }) },
  ],
  changed: [
    { as: 'devin', call: 'gate/tool.report', input: { server: 'files', tools: [{ name: 'read_file', definition }] } },
    {
      as: 'devin',
      call: 'gate/tool.report',
      input: { server: 'files', tools: [{ name: 'read_file', definition: { ...definition, description: 'Reads.' } }] },
    },
  ],
}
