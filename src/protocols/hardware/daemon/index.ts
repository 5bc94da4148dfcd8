// HACP, the Hardware Agent Capability Protocol, in the daemon: the draft's methods are operations of the daemon's own kernel.
import type { Protocol } from '#kernel/declare/operation.ts'
import { daemonCodes } from '../codes.ts'
import { sessionOperations } from './operations/session.ts'
import { stepOperations } from './operations/step.ts'
import { taskOperations } from './operations/task.ts'
import { toolOperations } from './operations/tool.ts'
import type { DaemonPorts } from './ports.ts'
import { daemonEvents } from './events.ts'

const session = { as: 'client', call: 'hardware/session.open', input: { client_name: 'example', client_version: '1.0.0' } }
const submitted = {
  as: 'client',
  call: 'hardware/task.submit',
  input: ({ session_id }: Record<string, unknown>) => ({
    session_id,
    task: { intent: 'Light the lamp', steps: [{ tool: 'gpio.set', args: { line: 17, value: 1 } }] },
  }),
}

export const daemonProtocol = (ports: DaemonPorts): Protocol => ({
  name: 'hardware',
  title: 'HACP: Hardware Agent Capability Protocol, the daemon',
  version: '0.1.0',
  operations: [...sessionOperations(ports), ...toolOperations(ports), ...taskOperations(ports), ...stepOperations(ports)],
  events: daemonEvents,
  codes: daemonCodes,
  scenes: { empty: [], session: [session], submitted: [session, submitted] },
})
