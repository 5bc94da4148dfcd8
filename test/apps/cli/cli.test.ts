// The command line as it is derived: every operation has a command, every field a flag, every mistake a sentence.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { safeName } from '#apps/cli/commands/artifact.ts'
import { argvFor, exampleInput, inputOf, pathOf } from '#apps/cli/derive/from-operation.ts'
import { changesBetween, hunksOf } from '#apps/cli/output/diff.ts'
import { clock, nodeVersion } from '#apps/cli/commands/doctor.ts'
import { refusedBy } from '#apps/cli/exit-codes.ts'
import { flagsOf, inputFrom, valueFrom } from '#apps/cli/derive/flags.ts'
import { globalFlags } from '#apps/cli/program.ts'
import { urlOf } from '#apps/cli/remote/credentials.ts'
import { allFlags, type Spec } from '#apps/cli/derive/command.ts'
import { nouns, specsOf } from '#apps/cli/derive/commands.ts'
import { barOf, bytesIn, paintFor, tableOf } from '#apps/cli/terminal.ts'
import { cutToWidth, escapeControl, inertJson, inertLines, widthOf, wrapWords } from '#apps/cli/output/safe-text.ts'
import { wordsForUp } from '#apps/cli/serve.ts'
import { fieldHelp } from '#apps/cli/derive/field-help.ts'
import { t } from '#kernel/declare/schema.ts'
import { protocols } from '#protocols/index.ts'
import { cliReference } from '../../../scripts/cli-docs.ts'
import { inProcess, root, temporary } from '../../support/as-processes/cli.ts'

const home = temporary('cli')
after(() => rmSync(home, { recursive: true, force: true }))

const specs = specsOf(protocols)
const operations = protocols.flatMap((protocol) => protocol.operations.map((op) => ({ op, name: `${protocol.name}/${op.name}` })))
const specFor = (operation: string): Spec => {
  const found = specs.find((spec) => spec.operation === operation)
  assert.ok(found, `${operation} has a command`)
  return found
}

/** The input that a command would send, instead of sending it. */
const sent: { operation: string; input: unknown }[] = []
const dry = inProcess({
  home,
  perform: async (spec, context, given) => {
    const found = operations.find(({ name }) => name === spec.operation)
    if (found) sent.push({ operation: found.name, input: await inputOf(context, found.op, spec, given) })
  },
})

describe('every operation', () => {
  for (const { op, name } of operations) {
    const spec = specFor(name)

    test(`${name} is \`countersign ${pathOf(op.name).join(' ')}\`, with help that shows an example and every choice`, async () => {
      assert.deepEqual(spec.path, pathOf(op.name))
      const { code, out, err } = await dry.run([...spec.path, '--help'])
      assert.deepEqual({ code, err }, { code: 0, err: '' })
      assert.ok(out.includes('\nExamples:\n'), 'there is an example')
      for (const flag of allFlags(spec)) {
        for (const choice of flag.shape.choices ?? []) assert.ok(out.includes(`"${choice}"`), `${flag.name}: ${choice}`)
        if (flag.required) assert.match(out, /\brequired\b/)
        assert.notEqual(flag.help, '', `--${flag.name} needs a description in its schema, or words in src/apps/cli/derive/field-help.ts`)
      }
    })

    test(`${name} asks for what is missing, one by one, with exit code 2`, async () => {
      const input = exampleInput(op)
      for (const missing of allFlags(spec).filter(({ required, path }) => required && path !== null)) {
        const without = inputFrom([], new Map(), input)
        let inner: any = without
        for (const step of missing.path!.slice(0, -1)) inner = inner[step]
        delete inner[missing.path!.at(-1)!]
        // Given by name, since a positional that is left out would shift the others.
        const argv = argvFor(without, { positionals: [], flags: allFlags(spec) })
        const { code, err } = await dry.run([...spec.path, ...argv])
        assert.equal(code, 2, err)
        const shown = spec.positionals.includes(missing) ? `<${missing.path!.at(-1)!}>` : `--${missing.name}`
        assert.ok(err.includes(`missing: ${shown}`), `${err} names ${shown}`)
      }
    })

    test(`${name} sends what its example shows`, async () => {
      const input = exampleInput(op)
      sent.length = 0
      const { code, err } = await dry.run([...spec.path, ...argvFor(input, spec)])
      assert.deepEqual({ code, err }, { code: 0, err: '' })
      assert.deepEqual(sent, [{ operation: name, input }])
    })
  }

  test('every noun says what it is about, and no words are left for fields that are gone', () => {
    const shown = specs.filter(({ path, hidden }) => path.length > 1 && !hidden).map(({ path }) => path[0]!)
    assert.deepEqual([...new Set(shown)].toSorted(), Object.keys(nouns).toSorted())
    const fields = new Set(specs.flatMap((spec) => allFlags(spec).map(({ path }) => path?.at(-1))))
    assert.deepEqual(
      Object.keys(fieldHelp).filter((field) => !fields.has(field)),
      [],
    )
  })

  test('help lists nothing that only the server itself, or an answer to something else, can do', async () => {
    const listed = specs.filter(({ operation, hidden }) => operation !== null && !hidden).map(({ operation }) => operation)
    for (const { name, operations } of protocols)
      for (const op of operations)
        if (op.callers.every((role) => role.name === 'system') || op.example.refused === 'PRECONDITION_FAILED')
          assert.ok(!listed.includes(`${name}/${op.name}`), op.name)
    const { out } = await dry.run(['checkpoint', '--help'])
    assert.doesNotMatch(out, /settle|overdue|escalate/)
    assert.match((await dry.run(['inbox', '--help'])).out, /^ {2}get\|show <request_id>/m)
    assert.match((await dry.run(['device', '--help'])).out, /^ {2}audit +the audit file of a daemon/m)
    assert.doesNotMatch(
      specs
        .map((spec) =>
          allFlags(spec)
            .map(({ help }) => help)
            .join(),
        )
        .join(),
      /repeat for more; repeat for more/,
    )
  })

  test('two never share a command, and no flag hides a global one', () => {
    const names = specs.map(({ path }) => path.join(' '))
    assert.deepEqual(
      names.filter((name, i) => names.indexOf(name) !== i),
      [],
    )
    const reserved = [...globalFlags.map(([flags]) => /--(?:no-)?([\w-]+)/.exec(flags)![1]!), 'help', 'version']
    for (const spec of specs) {
      // `artifact get --version` is the draft's word; before the noun it is ours.
      const own = allFlags(spec)
        .flatMap(({ name, also }) => [name, ...also])
        .filter((name) => name !== 'version')
      assert.deepEqual(
        own.filter((name) => reserved.includes(name)),
        [],
        spec.path.join(' '),
      )
      assert.equal(new Set(own).size, own.length, `${spec.path.join(' ')}: two flags of one name`)
    }
  })
})

describe('flags', () => {
  const schema = t.Object({
    name: t.String(),
    nested: t.Object({ name: t.String(), deep: t.Optional(t.Object({ leaf: t.Integer() })) }),
    extra: t.Optional(t.Object({ leaf: t.Boolean() })),
    list: t.Optional(t.Array(t.Object({ id: t.String(), label: t.String() }))),
    gone: t.Optional(t.Unknown({ description: 'refused: never' })),
    maybe: t.Optional(t.Union([t.String(), t.Null()])),
  })

  test('are named as short as they can be, and by their path if the short name would be unclear', () => {
    assert.deepEqual(
      flagsOf(schema).map(({ name, also, required }) => [name, also, required]),
      [
        ['name', [], true],
        ['nested.name', [], true],
        ['leaf', ['nested.deep.leaf'], false],
        ['extra.leaf', [], false],
        ['list', [], false],
        ['maybe', [], false],
      ],
    )
  })

  test('understand JSON for values that text cannot express, and refuse malformed JSON', () => {
    const json = flagsOf(t.Object({ value: t.Unknown() }))[0]!.shape
    assert.deepEqual(
      ['5', 'true', 'hello', '"5"', '{"a":[1]}'].map((text) => valueFrom(text, json)),
      [5, true, 'hello', '5', { a: [1] }],
    )
    assert.throws(() => valueFrom('{"a":', json), /is not JSON/)
    const record = flagsOf(schema).find(({ name }) => name === 'list')!.shape
    assert.deepEqual(valueFrom('id=a,label=Yes, please=now', record), { id: 'a', label: 'Yes, please=now' })
    assert.deepEqual(valueFrom('{"id":"a","label":"b"}', record), { id: 'a', label: 'b' })
    assert.throws(() => valueFrom('id=a,id=b', record), /names id twice/)
    assert.throws(() => valueFrom('what=a', record), /must be key=value pairs of id, label/)
    assert.throws(() => valueFrom('1e3', flagsOf(t.Object({ n: t.Integer() }))[0]!.shape), /whole number/)
  })

  const refused: readonly (readonly [argv: string, message: RegExp])[] = [
    ['task crate', /task has no command "crate"\n {2}→ did you mean `countersign task create`\?/],
    ['tsak list', /unknown command 'tsak'\s+\(Did you mean task\?\)/],
    ['task.create --goal x', /did you mean `countersign task create`\?/],
    ['collaboration/task.get task_1', /did you mean `countersign task get`\?/],
    ['list', /unknown command 'list'\n {2}→ a noun comes first: `countersign task list`, /],
    ['task list --stat blocked', /unknown option '--stat'\s+\(Did you mean --state\?\)/],
    ['task list --state blokced', /must be one of: created, assigned/],
    ['task list --limit many', /must be a whole number/],
    ['task list --limit 0', /--limit must be/],
    ['task get', /missing: <task_id>/],
    ['task get a b', /too many arguments/],
    ['task get a --task-id b', /task_id is given twice/],
    ['task create --goal a --goal b', /is given twice/],
    ['task create --goal a --spec.goal b', /--goal is given twice/],
    ['task create --json-input {', /--json-input is not JSON/],
    ['task create --json-input []', /must be a JSON object/],
    ['task create --json-input {} --file -', /not both/],
    ['task create --file no-such-file', /there is no file no-such-file/],
    ['task create --file .', /is not a file/],
    ['checkpoint resolve ckpt_1 --action allow', /must be one of: approve, reject/],
    ['checkpoint answer', /is now `countersign inbox`/],
    ['checkpoint answer ckpt_1', /is now `countersign inbox`/],
    ['completion tcsh', /must be one of: bash, zsh, fish/],
    ['review changes task_1', /missing: --change/],
    ['artifact upload task_1', /missing: --file/],
    ['grant add task_1 Shell --decision allow --until task', /<scope> must be a word such as deploy, or a namespace and a target/],
    ['task list --url ftp://x', /--url must be a URL/],
    ['task list --url http://tasks.example.com', /travel in the open/],
    ['--json up', /up comes first/],
  ]
  const real = inProcess({ home })
  for (const [argv, message] of refused) {
    test(`\`countersign ${argv}\` is refused with exit code 2 and a sentence`, async () => {
      const { code, out, err } = await real.run(argv.split(' '))
      assert.deepEqual({ code, out }, { code: 2, out: '' })
      assert.match(err, message)
    })
  }

  test('a value may look like a flag', async () => {
    sent.length = 0
    await dry.run(['task', 'cancel', 'task_1', '--reason', '--json'])
    await dry.run(['task', 'cancel', 'task_1', '--reason=-h'])
    assert.deepEqual(
      sent.map(({ input }) => input),
      [
        { task_id: 'task_1', reason: '--json' },
        { task_id: 'task_1', reason: '-h' },
      ],
    )
  })

  test('the input comes from a file, from JSON and from flags, the later over the earlier', async () => {
    sent.length = 0
    await dry.run(['task', 'create', '--file', '-', '--goal', 'b'], '{"type":"code","spec":{"goal":"a","acceptance_criteria":["c"]}}')
    await dry.run(['task', 'extend', 'task_1', '--no-deadline'])
    assert.deepEqual(
      sent.map(({ input }) => input),
      [
        { type: 'code', spec: { goal: 'b', acceptance_criteria: ['c'] } },
        { task_id: 'task_1', deadline: null },
      ],
    )
  })

  test('help is given however it is asked for', async () => {
    const shown = await real.run(['task', 'create', '--help'])
    assert.match(shown.out, /^Usage: countersign task create \[options\]\n/)
    assert.deepEqual(await real.run(['help', 'task', 'create']), shown)
    const noun = await real.run(['task', '--help'])
    assert.match(noun.out, /^ {2}assign <task_id> <assignee> {2}Hand a created task/m)
    assert.deepEqual(await real.run(['help', 'task']), noun)
    assert.deepEqual(await real.run(['task', 'help']), noun)
    assert.deepEqual(await real.run(['help']), await real.run([]))
  })

  test('help comes in groups, every command in one, and none that only the server may call', async () => {
    const { out } = await dry.run(['--help'])
    const headings = ['Work', 'Decide', 'Agents', 'Gate', 'Record', 'People', 'Server'].map((name) => out.indexOf(`\n${name}:\n`))
    assert.deepEqual(
      headings,
      headings.toSorted((a, b) => a - b),
    )
    assert.ok(headings[0]! > 0 && !out.includes('\nOthers:\n') && !out.includes('\nCommands:\n'), out)
    const task = await dry.run(['task', '--help'])
    for (const verb of ['complete', 'overdue']) assert.doesNotMatch(task.out, new RegExp(`^  ${verb}\\b`, 'm'))
  })

  for (const [line, message, hint] of [
    ['inbox shwo x', 'inbox has no command "shwo"', 'did you mean `countersign inbox show`?'],
    ['inbox take', '`inbox take` is now `countersign mailbox take`', 'the arguments are the same'],
    ['agent register x', '`agent register` is now `countersign agent publish`', 'the arguments are the same'],
    ['help task creat', 'task has no command "creat"', 'did you mean `countersign task create`?'],
    ['task creat --help', 'task has no command "creat"', 'did you mean `countersign task create`?'],
    ['task xyzzy', 'task has no command "xyzzy"', 'see `countersign task --help`'],
    ['inbox answer', 'missing: <request_id>', 'see `countersign inbox answer --help`'],
  ] as const) {
    test(`\`countersign ${line}\` gets a suggestion`, async () => {
      const { code, out, err } = await dry.run(line.split(' '))
      assert.deepEqual({ code, out, err }, { code: 2, out: '', err: `countersign: ${message}\n  → ${hint}\n` })
    })
  }

  test('a hint fits the thing that the refusal is about', () => {
    const hintOf = (code: string, message: string): string | null => refusedBy(code, message).hint
    assert.match(
      hintOf('NOT_FOUND', 'there is no request hxp_nope')!,
      /^it does not exist, or you have no access; `countersign inbox list`/,
    )
    assert.match(hintOf('NOT_FOUND', 'there is no agent agent_nope')!, /`countersign agent list`/)
    assert.equal(hintOf('NOT_FOUND', 'nothing was written under x'), 'it does not exist, or you have no access')
    assert.match(hintOf('CONFLICT', 'there is an agent agent_x already')!, /^this id is taken: choose another/)
    assert.equal(hintOf('CONFLICT', 'the task was changed'), 'it has changed in the meantime: fetch it again and retry')
  })

  test('bare help is help, a bare noun is a question', async () => {
    assert.equal((await real.run([])).code, 0)
    assert.equal((await real.run(['--help'])).code, 0)
    assert.equal((await real.run(['task'])).code, 2)
    assert.equal((await real.run(['task', '--help'])).code, 0)
    assert.deepEqual(await real.run(['--version']), { code: 0, out: '0.0.0\n', err: '' })
  })
})

describe('the key', () => {
  test('goes nowhere in the open, and nowhere without one', async () => {
    assert.equal(urlOf('http://127.0.0.1:3402/', 'x'), 'http://127.0.0.1:3402')
    assert.equal(urlOf('https://tasks.example.com', 'x'), 'https://tasks.example.com')
    for (const url of ['http://10.0.0.1', 'http://127.0.0.1.example.com', 'https://a@b.c', 'https://b.c/path', 'x'])
      assert.throws(() => urlOf(url, 'x'), url)
  })

  test('is asked for only if there is a server: without a server, that is the message', async (t) => {
    const server = createServer((_, answer) => void answer.end('{}')).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const cli = inProcess({ home, env: { COUNTERSIGN_URL: url } })
    const { code, err } = await cli.run(['task', 'list'])
    assert.equal(code, 4)
    assert.match(
      err,
      new RegExp(
        `you are not logged in at ${url} \\[UNAUTHENTICATED\\]\\n {2}→ on the server's machine: \`countersign login --as user_owner\``,
      ),
    )
    assert.equal(JSON.parse((await cli.run(['task', 'list', '--json'])).err).error.code, 'UNAUTHENTICATED', 'an error is JSON for programs')
    server.close()
    server.closeAllConnections()
    const alone = await cli.run(['task', 'list'])
    assert.equal(alone.code, 3)
    assert.match(
      alone.err,
      /cannot connect to http\S+: connection refused \[UNREACHABLE\]\n {2}→ is it running\? `countersign up` starts a server/,
    )
  })
})

describe('text from others', () => {
  const hostile = 'a\u001b[2Jb\u009b31mc\u202ed\u0000e\rf\u200bg\u{e0041}h'

  test('cannot move, hide or turn anything on a terminal', () => {
    assert.equal(escapeControl(hostile), String.raw`a\x1b[2Jb\x9b31mc\u202ed\x00e\rf\u200bg\u{e0041}h`)
    assert.equal(escapeControl('a\nb\tc'), String.raw`a\nb\tc`)
    assert.equal(inertLines('a\nb\tc\u0007'), 'a\nb\tc' + String.raw`\x07`)
    assert.equal(escapeControl('Füße 漢字 👍 e\u0301'), 'Füße 漢字 👍 e\u0301')
    const shown = inertJson({ hostile }, 2)
    assert.match(shown, /^[ -~\n]*$/)
    assert.deepEqual(JSON.parse(shown), { hostile })
  })

  test('in a table it is shown, not obeyed', () => {
    const table = tableOf([{ title: 'A' }, { title: 'B' }], [[hostile, 'x\ny']], { write() {} }, (_, text) => text)
    assert.equal(table.split('\n').length, 3)
    assert.match(table, /^[ -~\n]*$/)
  })

  test('a file name stays in its folder', () => {
    assert.deepEqual(['../../etc/passwd', '.bashrc', 'a b.txt', '-rf', 'x\u001b[2J', '', '..'].map(safeName), [
      'passwd',
      '_bashrc',
      'a b.txt',
      '_rf',
      'x__2J',
      'artifact',
      '_',
    ])
  })
})

describe('a terminal', () => {
  test('gets columns that line up, also with wide characters, and whole ids', () => {
    // A picture made of two counts as both: some terminals draw it so.
    assert.deepEqual(['abc', '漢字', '👍🏽', 'e\u0301'].map(widthOf), [3, 4, 4, 1])
    assert.equal(cutToWidth('漢字漢字', 5), '漢字…')
    assert.deepEqual(wrapWords('one two three', 7), ['one two', 'three'])
    assert.deepEqual(wrapWords('  one two', 20), ['  one two'])
    const narrow = { write() {}, isTTY: true, columns: 40 }
    const table = tableOf(
      [{ title: 'ID' }, { title: 'TEXT' }],
      [['task_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'x'.repeat(99)]],
      narrow,
      (_, text) => text,
    )
    assert.equal(table, `ID${' '.repeat(31)}TEXT\ntask_01ARZ3NDEKTSV4RRFFQ69G5FAV  xxxxxxx…\n`)
  })

  test('gets colours unless it, or its user, does not want them', () => {
    const tty = { write() {}, isTTY: true }
    const isColoured = (env: Record<string, string>, output: object = tty, wanted = true): boolean =>
      paintFor(output as typeof tty, env, wanted)('red', 'x') !== 'x'
    assert.equal(isColoured({}), true)
    assert.equal(isColoured({ NO_COLOR: '1' }), false)
    assert.equal(isColoured({ TERM: 'dumb' }), false)
    assert.equal(isColoured({}, { write() {} }), false)
    assert.equal(isColoured({ FORCE_COLOR: '1' }, { write() {} }), true)
    assert.equal(isColoured({}, tty, false), false)
  })

  test('gets a bar that fills', () => {
    assert.equal(barOf(0, 100), `${'░'.repeat(24)}   0 % of 100 B`)
    assert.equal(barOf(26_214_400, 52_428_800), `${'█'.repeat(12)}${'░'.repeat(12)}  50 % of 52.4 MB`)
    assert.deepEqual([0, 999, 1_000, 1e9].map(bytesIn), ['0 B', '999 B', '1.0 kB', '1.0 GB'])
  })
})

describe('a diff', () => {
  const shown = (before: string, after_: string): string =>
    changesBetween(before, after_)!
      .map(({ kind, text }) => `${{ same: ' ', added: '+', removed: '-' }[kind]}${text}`)
      .join('\n')

  test('is the shortest one', () => {
    assert.equal(shown('a\nb\nc\na\nb\nb\na\n', 'c\nb\na\nb\na\nc\n'), '-a\n-b\n c\n+b\n a\n b\n-b\n a\n+c')
    assert.equal(shown('', 'a\n'), '+a')
    assert.equal(shown('a\n', ''), '-a')
    assert.equal(shown('a\nb', 'a\nb'), ' a\n b')
  })

  test('turns one text into the other, whatever they are', () => {
    let seed = 7
    const random = (below: number): number => (seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0) % below
    for (let i = 0; i < 500; i++) {
      const [a, b] = [0, 1].map(() => Array.from({ length: 1 + random(12) }, () => 'abc'[random(3)]).join('\n'))
      const changes = changesBetween(a!, b!)!
      assert.equal(
        changes
          .filter(({ kind }) => kind !== 'added')
          .map(({ text }) => text)
          .join('\n'),
        a,
      )
      assert.equal(
        changes
          .filter(({ kind }) => kind !== 'removed')
          .map(({ text }) => text)
          .join('\n'),
        b,
      )
    }
  })

  test('leaves out what did not change, and gives up on what changed altogether', () => {
    const lines = Array.from({ length: 40 }, (_, i) => `line ${i}`)
    const hunks = hunksOf(changesBetween(lines.join('\n'), lines.with(20, 'other').join('\n'))!)
    assert.equal(hunks.length, 10)
    assert.deepEqual([hunks.at(0), hunks.at(-1)], ['gap', 'gap'])
    const many = (word: string): string => Array.from({ length: 3_000 }, (_, i) => `${word}${i}`).join('\n')
    assert.equal(changesBetween(many('a'), many('b')), null)
  })
})

describe('the doctor', () => {
  test('knows an old Node and a wrong clock', () => {
    assert.deepEqual([nodeVersion('24.1.0').status, nodeVersion('22.9.0').status], ['ok', 'fail'])
    const now = Date.UTC(2027, 5, 1)
    assert.deepEqual(
      [clock(now, now - 1).status, clock(now, now + 60_000).status, clock(Date.UTC(1970, 0, 1), 0).status],
      ['ok', 'fail', 'fail'],
    )
  })
})

describe('`up`', () => {
  test('gets the words behind it, and --data also from before it', () => {
    assert.deepEqual(wordsForUp(['up', '--port', '0']), ['--port', '0'])
    assert.deepEqual(wordsForUp(['--data', 'x', 'up', '--port', '0']), ['--data', 'x', '--port', '0'])
    assert.deepEqual(
      [wordsForUp(['task', 'up']), wordsForUp(['--json', 'up']), wordsForUp(['task', 'list']), wordsForUp([])],
      [null, null, null, null],
    )
  })
})

test('docs/cli.md says what the commands are (`npm run docs:cli` writes it)', () => {
  assert.equal(readFileSync(join(root, 'docs', 'cli.md'), 'utf8'), cliReference())
})
