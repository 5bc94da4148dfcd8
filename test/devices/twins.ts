// Broken twins of the daemon's guards: each is a few words of the source and their replacement, and the check that must find it.
import type { Mistake } from '../simulation/mistakes.ts'

export type Twin = Mistake & { readonly check: string }

const twin = (name: string, check: string, ...patches: readonly [file: string, find: string, replace: string][]): Twin => ({
  name,
  check,
  patches: patches.map(([file, find, replace]) => ({ file, find, replace })),
})

export const twins: readonly Twin[] = [
  twin('a-folder-may-be-a-link', 'paths', [
    'devices/path-guard.ts',
    'const FOLDER = O_PATH | O_NOFOLLOW | O_DIRECTORY',
    'const FOLDER = O_PATH | O_DIRECTORY',
  ]),
  twin('a-file-may-be-a-link', 'paths', ['devices/path-guard.ts', 'const PLACE = O_PATH | O_NOFOLLOW', 'const PLACE = O_PATH']),
  twin('a-file-may-have-two-names', 'paths', ['devices/path-guard.ts', 'stats.isFile() && stats.nlink > 1', 'stats.nlink > 99']),
  twin('a-name-that-begins-alike-is-listed', 'paths', [
    'protocols/hardware/daemon/policy.ts',
    'path.startsWith(`${folder}/`)',
    'path.startsWith(folder)',
  ]),
  twin('a-path-may-go-up', 'paths', [
    'protocols/hardware/daemon/policy.ts',
    " || (path.includes('..') && path.split('/').includes('..'))",
    '',
  ]),
  twin('what-is-read-may-be-written', 'paths', [
    'protocols/hardware/daemon/judging.ts',
    "use === 'read' ? [...policy.read, ...policy.write] : policy.write",
    '[...policy.read, ...policy.write]',
  ]),
  twin(
    'no-cap',
    'cap',
    ['protocols/hardware/daemon/judging.ts', 'if (step.risk_level > cap) {', 'if (step.risk_level > 9) {'],
    ['protocols/hardware/daemon/operations/step.ts', 'if (risk_level > cap &&', 'if (risk_level > 9 &&'],
  ),
  twin('the-target-is-no-risk', 'cap', ['devices/device.ts', 'Math.max(tool.risk_level, isActing(tool) ? raised : 0)', 'tool.risk_level']),
  twin('interlocks-at-the-submission-alone', 'interlock', [
    'devices/tools/gpio.ts',
    'const objection = envelope.lineObjection(line, value)',
    'const objection = value > 1 ? envelope.lineObjection(line, value) : null',
  ]),
  twin('a-pulse-is-forgotten', 'promise', [
    'devices/tools/gpio.ts',
    'const release = bench.envelope.promise(line, before)',
    'const release = (): void => undefined',
  ]),
  twin('no-limits', 'limits', ['devices/envelope.ts', 'if (value < limit.min || value > limit.max)', 'if (value < 0)']),
  twin('no-slew', 'limits', ['devices/envelope.ts', 'if (limit.slew === null) continue', 'if (limit.max > 0) continue']),
  twin('no-rates', 'rates', ['devices/runner/rates.ts', 'return tokens >= 1 ? 0 :', 'return tokens >= -9 ? 0 :']),
  twin(
    'no-queue',
    'queue',
    ['protocols/hardware/daemon/operations/task.ts', 'if ((await read.count(Task, ', 'if (most < 0 && (await read.count(Task, '],
    ['protocols/hardware/daemon/operations/task.ts', 'max: policy.queue + policy.concurrent,', 'max: 1_000,'],
  ),
  twin('a-session-is-anybodys', 'binding', [
    'bridges/hacp/sessions.ts',
    ' || (found.connection !== null && found.connection !== connection)',
    '',
  ]),
  twin(
    'a-session-is-any-policys',
    'binding',
    ['bridges/hacp/sessions.ts', 'found?.principal !== principal', 'found === undefined'],
    ['protocols/hardware/daemon/operations/session.ts', ' || session.principal !== actor.id)', ')'],
  ),
  twin('no-locks', 'locks', ['devices/runner/locks.ts', 'if (!isBehind && holdersOf(resource).length === 0)', 'if (!isBehind)']),
  twin('every-tool-is-allowed', 'allowlist', ['protocols/hardware/daemon/judging.ts', 'if (!allowsTool(policy, tool))', 'if (!tool)']),
  twin('programs-by-default', 'programs', ['devices/device.ts', '...(programs.size > 0 ? procTools : [])', '...procTools']),
  twin('personal-data-by-a-pattern', 'personal', ['protocols/hardware/daemon/policy.ts', 'tool.personal ? pattern === tool.name : ', '']),
  twin(
    'a-cancel-ends-nothing',
    'cancel',
    ['devices/runner/task-run.ts', 'if (entry.why !== null) break', ''],
    ['protocols/hardware/daemon/operations/step.ts', "if (task.cancelling || session?.state !== 'open')", "if (session?.state !== 'open')"],
    ['devices/runner/task-run.ts', "if (entry.why === 'cancel' || entry.why === 'stop') return finishTask(runs, entry, 'CANCELLED')", ''],
  ),
  twin('a-cancel-cuts-a-transaction', 'cancel', ['devices/runner/step-run.ts', 'const YIELD_MS = 3_000', 'const YIELD_MS = 0']),
  twin('outputs-stay', 'safe', ['devices/runner/task-runner.ts', 'return device.makeSafe(session_id)', 'return']),
  twin('a-repeated-submission-acts-again', 'twice', [
    'bridges/hacp/methods.ts',
    "return call('task.submit', params, caller.actor, idempotency_key)",
    "return call('task.submit', params, caller.actor, idempotency_key && undefined)",
  ]),
  twin('any-line-follows', 'chain', [
    'apps/cli/device/audit.ts',
    'if (prev !== null && entry.prev !== prev)',
    'if (prev === null && entry.prev === 7)',
  ]),
  twin(
    'any-number-follows',
    'chain',
    ['apps/cli/device/audit.ts', 'if (seq !== null && entry.seq !== seq + 1)', 'if (seq === null && entry.seq === 0)'],
    ['apps/cli/device/audit.ts', 'if (prev !== null && entry.prev !== prev)', 'if (prev === null && entry.prev === 7)'],
  ),
  twin('any-certificate-will-do', 'certificates', [
    'apps/device/tls-listeners.ts',
    'rejectUnauthorized: true',
    'rejectUnauthorized: false',
  ]),
  twin('revoked-certificates-count', 'certificates', ['apps/device/tls-listeners.ts', '...(crl ? { crl } : {}),', '']),
  twin('denials-are-nobodys-business', 'denials', [
    'bridges/hacp/index.ts',
    'if (!isDenial(failure.code)) return',
    'if (failure.code < 0) return',
  ]),
]
