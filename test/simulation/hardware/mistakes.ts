// Mistakes that are planted in the source of the daemon, each of which the simulation with a misbehaving board must find.
import type { Mistake } from '../mistakes.ts'

export type DeviceMistake = Mistake & { readonly message: RegExp }
const mistake = (name: string, message: RegExp, file: string, find: string, replace: string): DeviceMistake => ({
  name,
  message,
  patches: [{ file, find, replace }],
})

export const mistakes: readonly DeviceMistake[] = [
  mistake(
    'a-cancelled-task-goes-on',
    /begins after its task was cancelled/,
    'protocols/hardware/daemon/operations/step.ts',
    "if (task.cancelling || session?.state !== 'open') throw stoppedRefusal('cancelled', 'the task is cancelled')",
    '',
  ),
  mistake(
    'no-locks',
    /two transactions on/,
    'devices/runner/locks.ts',
    'if (resource === null) return Promise.resolve(NONE)',
    'if (waitMs >= 0) return Promise.resolve(NONE)',
  ),
  mistake(
    'a-stuck-chip-is-free-again',
    /two transactions on/,
    'devices/runner/task-run.ts',
    'if (stuck) void stuck.finally(() => lock.release())',
    'if (stuck && index < 0) void stuck.finally(() => lock.release())',
  ),
  mistake(
    'it-acts-without-an-audit',
    /although the audit cannot be written/,
    'devices/runner/step-run.ts',
    'if (message !== null) return outcome(',
    'if (message !== null && step.index < 0) return outcome(',
  ),
  mistake(
    'a-restart-leaves-tasks-open',
    /is still open|never ends/,
    'devices/runner/recovery.ts',
    "await forEach(kernel, Task, (task_id) => kernel.call('hardware/task.finish', { task_id, status: 'FAILED', code: 'restart' }, SYSTEM))",
    '',
  ),
  mistake(
    'a-close-leaves-outputs',
    /is not safe although nobody has a session/,
    'devices/runner/task-runner.ts',
    'return device.makeSafe(session_id)',
    'return void session_id',
  ),
  mistake(
    'interlocks-at-the-submission-alone',
    /both valves are open/,
    'devices/tools/gpio.ts',
    'const objection = envelope.lineObjection(line, value)',
    'const objection = value > 1 ? envelope.lineObjection(line, value) : null',
  ),
]
