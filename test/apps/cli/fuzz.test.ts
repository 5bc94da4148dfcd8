// Words at random: nothing that anybody types may end in anything but a sentence and an exit code.
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { test } from 'node:test'
import { argvFor, exampleInput } from '#apps/cli/derive/from-operation.ts'
import { CliError, exits } from '#apps/cli/exit-codes.ts'
import { globalFlags } from '#apps/cli/program.ts'
import { allFlags, type Spec } from '#apps/cli/derive/command.ts'
import { specsOf } from '#apps/cli/derive/commands.ts'
import { protocols } from '#protocols/index.ts'
import { inProcess, temporary } from '../../support/as-processes/cli.ts'

const RUNS = 20_000
const specs = specsOf(protocols)
const operations = new Map(protocols.flatMap(({ name, operations: all }) => all.map((op) => [`${name}/${op.name}`, op])))

/** Repeatable: the seed is in the message of a failure. */
function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const garbage = [
  '',
  '-',
  '--',
  '---',
  '-x',
  '-hV',
  '--=',
  '--x=',
  '-=',
  '=',
  '\u0000',
  '\u001b[2J',
  '\u202e',
  '漢字',
  'ü',
  ' ',
  '\n',
  '"',
  "'",
  '`id`',
  '$(id)',
  ';',
  '{}',
  '[]',
  '{"a":',
  '{"__proto__":{"polluted":1}}',
  '{"constructor":{"prototype":{"polluted":1}}}',
  '__proto__',
  '--__proto__',
  '--__proto__=1',
  'constructor',
  '--constructor',
  '--to-string',
  'hasOwnProperty',
  '-1',
  '1e400',
  'NaN',
  '0x10',
  '9'.repeat(400),
  'x'.repeat(5_000),
  '../../etc/passwd',
  'no-such-file',
  '.',
  '/dev/null',
  'task.create',
  'collaboration/task.get',
  '%s%n',
  'null',
  'undefined',
  'true',
  'id=a,label=b,risk=low',
  'id=',
  'approve',
  'task_1',
]
const anyFlag = [
  ...new Set([
    ...specs.flatMap((spec) => allFlags(spec).map(({ name }) => `--${name}`)),
    ...globalFlags.map(([flags]) => flags.split(' ')[0]!),
    '-h',
    '--help',
    '-V',
    '--version',
  ]),
]
const anyWord = [...new Set(specs.flatMap(({ path }) => path)), 'help']

function vectorFrom(random: (below: number) => number): string[] {
  const pick = <T>(from: readonly T[]): T => from[random(from.length)]!
  const spec: Spec = pick(specs)
  const argv = random(10) < 8 ? [...spec.path] : [pick(anyWord)]
  // Some begin with what would be right.
  const op = operations.get(spec.operation ?? '')
  if (op && random(10) < 4) argv.push(...argvFor(exampleInput(op), spec))
  const own = allFlags(spec)
    .flatMap(({ name, also }) => [name, ...also, `no-${name}`])
    .map((name) => `--${name}`)
  for (let i = random(9); i > 0; i--) {
    const kind = random(10)
    if (kind < 4 && own.length > 0) argv.push(pick(own))
    else if (kind < 5) argv.push(pick(anyFlag))
    else if (kind < 6) argv.push(pick(anyWord))
    else if (kind < 7 && own.length > 0) argv.push(`${pick(own)}=${pick(garbage)}`)
    else argv.push(pick(garbage))
  }
  if (random(20) === 0) argv.unshift(pick([...garbage, ...anyFlag]))
  return argv
}

/** Words that may succeed without a server. */
const mayEndWell = (argv: readonly string[]): boolean =>
  argv.length === 0 ||
  // Reads a file of this machine.
  (argv.includes('login') && argv.includes('list')) ||
  // Prints commands for the operator of a broker.
  (argv.includes('harness') && argv.includes('permissions') && !argv.includes('--apply')) ||
  argv.some((word) => ['-h', '--help', '-V', '--version', 'help', 'completion', 'logout'].includes(word) || /^-[hV]/.test(word))

test(`${RUNS} random command lines end with a sentence and an exit code, never in a crash, never well without a reason`, async () => {
  const home = temporary('cli-fuzz')
  const cli = inProcess({
    home,
    // Where nothing listens: a random command must not reach a server of the user.
    env: { COUNTERSIGN_URL: 'http://127.0.0.1:9' },
    async perform(spec, context, given) {
      const absent = new CliError(exits.unreachable, 'UNREACHABLE', 'not here')
      // These look at this machine, change it or open sockets before they call anybody.
      if (['doctor', 'login', 'up', 'device install'].includes(spec.path.join(' '))) throw absent
      const remote = () => Promise.reject(absent)
      return spec.run({ ...context, remote }, given)
    },
  })
  const counts = new Map<number | null, number>()
  const before = process.memoryUsage().heapUsed
  try {
    for (let seed = 1; seed <= RUNS; seed++) {
      const argv = vectorFrom(randomOf(seed))
      const where = `seed ${seed}: ${JSON.stringify(argv).slice(0, 500)}`
      const ran = await cli.run(argv).catch((error: unknown) => assert.fail(`${where} threw ${String((error as Error).stack)}`))
      counts.set(ran.code, (counts.get(ran.code) ?? 0) + 1)
      assert.ok([0, 1, 2, 3, 4].includes(ran.code!), `${where} ended with ${ran.code}`)
      if (ran.code === 0) assert.ok(mayEndWell(argv), `${where} ended well: ${ran.out.slice(0, 200)}`)
      else assert.notEqual(ran.err, '', `${where} said nothing`)
      // oxlint-disable-next-line no-control-regex -- exactly these must not come through
      assert.doesNotMatch(ran.out + ran.err, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/, where)
    }
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
  assert.equal(Object.hasOwn(Object.prototype, 'polluted'), false)
  assert.ok(process.memoryUsage().heapUsed - before < 150_000_000, 'nothing is kept from one to the next')
  // The vectors are neither all refused by the parser nor all accepted.
  for (const [code, least] of [
    [0, 100],
    [2, 5_000],
    [3, 1_000],
  ] as const)
    assert.ok((counts.get(code) ?? 0) >= least, `${code}: ${JSON.stringify([...counts])}`)
})
