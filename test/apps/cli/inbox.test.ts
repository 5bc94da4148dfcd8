// `ask` and `inbox` as people and scripts use them: through pipes, and in a real terminal with keys pressed one by one.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import type { Client } from '#sdk/index.ts'
import { until } from '../../support/as-processes/agents.ts'
import { runInTerminal, runPiped, runShellInTerminal, type Press, type Ran } from '../../support/as-processes/cli.ts'
import { openProxy } from '../../support/faults/crash-proxy.ts'
import { openInbox, type Who } from '../../support/as-processes/inbox-people.ts'

const { home, server, owner, agent, envFor, run, close } = await openInbox('cli-inbox', { COUNTERSIGN_DEFAULT_AFTER: '1' })
after(close)

const piped = (argv: readonly string[], as: Who = 'owner', input = ''): Promise<Ran> =>
  runPiped(argv, { env: envFor(as), cwd: home, input })

type Asked = Parameters<Client['execution']['request']['create']>[0]
const asked = async (more: Partial<Asked>): Promise<string> =>
  (await agent.execution.request.create({ action: 'APPROVE', payload: { item: 'Deploy' }, ...more })).request.id
const approving = (item: string, more: object = {}): Promise<string> => asked({ payload: { item, ...more } })
const statusOf = async (request_id: string): Promise<string> => (await owner.execution.request.get({ request_id })).request.status
const receiptOf = async (request_id: string): Promise<any> => (await owner.execution.request.get({ request_id })).receipt
const phraseOf = async (request_id: string): Promise<string> => (await owner.execution.inbox.get({ request_id })).item.guard.confirm!
/** Nothing is left for the next test. */
async function cleared(): Promise<void> {
  for (const { request_id, status } of (await owner.execution.inbox.list({})).items)
    if (status === 'pending' || status === 'assigned') await agent.execution.request.cancel({ request_id })
}
const opened = (title: string): Promise<any> =>
  until(async () => (await owner.execution.inbox.list({})).items.find((item) => item.title === title), `${title} is in the inbox`)

// --- ask -----------------------------------------------------------------------------------------------------------------------

describe('ask', () => {
  test('the answer alone goes to stdout, and progress to stderr', async () => {
    const asking = piped(['ask', 'decide', 'Ship it?', '--option', 'yes', '--option', 'no', '--context', 'All green.'], 'agent')
    const { request_id } = await opened('Ship it?')
    await run(['inbox', 'answer', request_id, 'yes', '--reason', 'Go.'])
    const { code, out, err } = await asking
    assert.deepEqual({ code, out }, { code: 0, out: 'yes\n' })
    assert.match(err, /^hxp_\w+ waits for user_owner in the inbox; Ctrl-C stops waiting\n✔ answered by user_owner: Go\.\n$/)
  })

  test('--quiet says nothing else; a rejection is exit code 5', async () => {
    const asking = piped(['ask', 'approve', 'Deploy v2', '--details', '{"sha":"1f0c"}', '--reject-requires-reason', '--quiet'], 'agent')
    const { request_id, card } = await opened('Deploy v2')
    assert.deepEqual(card['payload'], { item: 'Deploy v2', details: { sha: '1f0c' }, reject_requires_reason: true })
    assert.equal((await run(['inbox', 'answer', request_id, 'reject'])).code, 1, 'a reason is required')
    assert.equal((await run(['inbox', 'answer', request_id, 'no', '--reason', 'Friday.'])).code, 0)
    assert.deepEqual(await asking, { code: 5, out: 'rejected\n', err: '' })
  })

  test('a claim is verified with its evidence; only a confirmed one is exit code 0', async () => {
    for (const [verdict, code] of [
      ['confirmed', 0],
      ['refuted', 5],
      ['cannot_tell', 5],
    ] as const) {
      // prettier-ignore
      const claim = `It can be restored: ${verdict}`
      const argv = ['ask', 'verify', claim, '--evidence', '4,211 rows', '--evidence', 'https://files.example.com/log', '--quiet']
      const asking = piped(argv, 'agent')
      const { request_id, card } = await opened(claim)
      const evidence = [{ kind: 'text', text: '4,211 rows' }, { kind: 'link', uri: 'https://files.example.com/log' }] // prettier-ignore
      assert.deepEqual(card['payload'], { claim, evidence })
      assert.match((await run(['inbox', 'show', request_id])).out, /4,211 rows/)
      const foreign = await run(['inbox', 'answer', request_id, 'approve'])
      assert.deepEqual([foreign.code, /choose one of "confirmed", "refuted", "cannot_tell"/.test(foreign.err)], [2, true], foreign.err)
      assert.equal((await run(['inbox', 'answer', request_id, 'maybe'])).code, 1)
      assert.equal((await run(['inbox', 'answer', request_id, verdict, '--reason', 'I looked.'])).code, 0)
      assert.deepEqual(await asking, { code, out: `${verdict}\n`, err: '' })
    }
    const other = await run(['ask', 'verify', 'x', '--evidence', 'artifact:art_1@v1'], 'agent')
    assert.deepEqual([other.code, /there is no artifact art_1 v1/.test(other.err)], [1, true], other.err)
    assert.match((await run(['ask', 'verify'], 'agent')).err, /missing: <claim>/)
  })

  test('--json is the answer with its receipt', async () => {
    const asking = piped(['ask', 'provide', 'How many?', '--type', 'number', '--min', '1', '--json'], 'agent')
    const { request_id } = await opened('How many?')
    assert.equal((await run(['inbox', 'answer', request_id, '0'])).code, 1)
    assert.equal((await run(['inbox', 'answer', request_id, '-'], 'owner', '42\n')).code, 0)
    const { code, out, err } = await asking
    assert.deepEqual({ code, err }, { code: 0, err: '' })
    const { result, status, verified, receipt } = JSON.parse(out)
    assert.deepEqual({ result, status, verified }, { result: 42, status: 'completed', verified: true })
    assert.equal(receipt.request_id, request_id)
  })

  test('a secret comes through a pipe and is printed once; a file is sent along', async () => {
    const asking = piped(['ask', 'provide', 'The key', '--sensitive', '--quiet'], 'agent')
    const { request_id } = await opened('The key')
    const given = await run(['inbox', 'answer', request_id, '-', '--json'], 'owner', 'hunter2\n')
    assert.ok(given.code === 0 && !given.out.includes('hunter2'), given.err)
    assert.deepEqual(await asking, { code: 0, out: 'hunter2\n', err: '' })
    assert.match((await run(['ask', 'await', request_id], 'agent')).err, /\[GONE\]/)
    const wanted = await asked({ action: 'PROVIDE', payload: { prompt: 'The contract', input_type: 'file' } })
    writeFileSync(join(home, 'contract.txt'), 'I do.\n')
    assert.equal((await run(['inbox', 'answer', wanted])).code, 2)
    assert.equal((await run(['inbox', 'answer', wanted, '--file', 'contract.txt'])).code, 0)
    const { name, size } = (await receiptOf(wanted)).result
    assert.deepEqual([name, size], ['contract.txt', 6])
  })

  test('a timeout exits with 6, a withdrawal with 7', async () => {
    const late = await piped(['ask', 'approve', 'Quick', '--timeout', '1', '--fallback', 'fail'], 'agent')
    assert.deepEqual({ code: late.code, out: late.out }, { code: 6, out: '' })
    assert.match(late.err, /nobody answered hxp_\w+: it is failed \(timeout\)/)
    const gone = piped(['ask', 'approve', 'Withdrawn', '--quiet'], 'agent')
    await agent.execution.request.cancel({ request_id: (await opened('Withdrawn')).request_id })
    assert.deepEqual(await gone, { code: 7, out: '', err: '' })
    const usual = await piped(['ask', 'decide', 'Which?', '--option', 'a', '--option', 'b', '--timeout', 'PT1S', '--fallback', 'default', '--default-option', 'b', '--quiet'], 'agent') // prettier-ignore
    assert.deepEqual(usual, { code: 0, out: 'b\n', err: '! nobody answered in time: the default was taken\n' })
  })

  test('asks without waiting, waits later, and asks once under a key', async () => {
    const argv = ['ask', 'approve', 'Backup', '--key', 'backup/1', '--no-wait']
    const first = await run(argv, 'agent')
    assert.match(first.out, /^hxp_\w+\n$/)
    assert.equal((await run(argv, 'agent')).out, first.out)
    const id = first.out.trim()
    await run(['inbox', 'answer', id, 'approve'])
    assert.deepEqual(await run(['ask', 'await', id, '--quiet'], 'agent'), { code: 0, out: 'approved\n', err: '' })
    const other = await run(['ask', 'approve', 'Another', '--key', 'backup/1', '--no-wait'], 'agent')
    assert.equal(other.code, 1, 'the key names another question')
  })

  test('an invalid value is refused with the name of its flag', async () => {
    for (const [argv, message] of [
      [['ask', 'decide', 'Which?'], /missing: --option/],
      [['ask', 'approve'], /missing: <item>/],
      [['ask', 'approve', 'x', '--details', '[1]'], /--details must be a JSON object/],
      [['ask', 'approve', 'x', '--timeout', 'soon'], /--timeout must be a duration such as PT2H, or seconds/],
      [['ask', 'provide', 'x', '--type', 'number', '--min', 'one'], /must be a number/],
    ] as const) {
      const { code, err } = await run(argv, 'agent')
      assert.equal(code, 2, err)
      assert.match(err, message)
    }
    const person = await run(['ask', 'approve', 'x'], 'owner')
    assert.equal(person.code, 1)
    assert.match(person.err, /UNAUTHORIZED/)
  })

  test('in a terminal it shows that it waits; Ctrl-C leaves the request open, or withdraws it', async () => {
    const left = await runInTerminal(['ask', 'approve', 'Leave me'], [['⠋', '\u0003']], { env: envFor('agent'), cwd: home })
    const said = stripVTControlCharacters(left.out)
    assert.equal(left.code, 130, said)
    assert.match(said, /[⠋⠙⠹⠸] waiting for user_owner/)
    const id = /still open: countersign ask await (hxp_\w+)/.exec(said)![1]!
    assert.equal(await statusOf(id), 'pending')
    await agent.execution.request.cancel({ request_id: id })
    const gone = await runInTerminal(['ask', 'approve', 'Forget me', '--withdraw'], [['⠋', '\u0003']], {
      env: envFor('agent'),
      cwd: home,
    })
    assert.match(stripVTControlCharacters(gone.out), /hxp_\w+ is withdrawn/)
    assert.equal(await statusOf(/hxp_\w+/.exec(gone.out)![0]), 'cancelled')
  })
})

// --- inbox, in scripts ---------------------------------------------------------------------------------------------------------

describe('inbox in a script', () => {
  test('is a list, with filters as flags, pages and JSON', async () => {
    await cleared()
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push(await approving(`Item ${i}`))
    const urgent = await asked({ priority: 'critical', payload: { item: 'Urgent' } })
    const shown = await piped(['inbox'])
    assert.equal(shown.code, 0)
    assert.deepEqual(
      shown.out
        .trim()
        .split('\n')
        .map((line) => line.split(/\s+/)[0]),
      ['REQUEST', ...[urgent, ...ids].map((id) => `hxp_${id.slice(-6)}`)],
    )
    const page = JSON.parse((await piped(['inbox', '--json', '--limit', '2'])).out)
    assert.deepEqual(
      page.items.map(({ request_id }: any) => request_id),
      [urgent, ids[0]],
    )
    const all = JSON.parse((await run(['inbox', 'list', '--limit', '2', '--all', '--json'])).out)
    assert.deepEqual([all.items.length, all.next_cursor], [6, null])
    assert.deepEqual((await run(['inbox', '--priority', 'critical', '--pick', 'items.title'])).out, 'Urgent\n')
    assert.equal(JSON.parse((await run(['inbox', 'count', '--json'])).out).open, 6)
    assert.match((await run(['inbox', '--kind', 'nothing'])).err, /must be one of|Allowed choices/)
  })

  test('shows one as a person sees it, answers for exactly that, and snoozes', async () => {
    const id = await approving('Send it', { details: { to: ['a', 'b'], hostile: 'x\u001b[2Jy' }, context: 'Because.' })
    const { out } = await run(['inbox', 'show', id])
    assert.match(out, /^An agent asks: Robot \(agent_robot\), for Owner \(user_owner\)\n {3}│ Send it\n {3}│ details:\n/)
    assert.match(out, /\n {3}│ {3}to:\n {3}│ {5}- a\n {3}│ {5}- b\n/)
    assert.match(out, /\nThe agent says:\n {3}│ Because\.\n/)
    assert.match(out, /\nApprove: the agent may go ahead\nReject: .+\nNo deadline: it waits for an answer\n/)
    assert.ok(!out.includes('\u001b'), 'nothing for the terminal to obey')
    const digest = /digest (\S+)/.exec(out)![1]!
    await owner.execution.request.question({ request_id: id, text: 'To whom?' })
    const stale = await run(['inbox', 'answer', id, 'approve', '--digest', digest])
    assert.equal(stale.code, 1)
    assert.match(stale.err, /CHANGED/)
    assert.equal((await run(['inbox', 'snooze', id, '2h'])).code, 0)
    assert.equal((await run(['inbox', 'snooze', id, 'soon'])).code, 2)
    assert.ok(!(await run(['inbox', '--json'])).out.includes(id))
    assert.match((await run(['inbox', '--snoozed', '--json'])).out, new RegExp(id))
    assert.equal((await run(['inbox', 'answer', id, 'approve'])).code, 0)
    assert.equal(await statusOf(id), 'completed')
  })
})

// --- inbox, at a terminal ------------------------------------------------------------------------------------------------------

type Size = { columns?: number; rows?: number; env?: Record<string, string>; url?: string }
const live = (
  presses: readonly Press[],
  { columns = 80, rows = 24, env = {}, url = server.url }: Size = {},
  argv: string[] = [],
): Promise<Ran> => runInTerminal(['inbox', ...argv], presses, { env: { ...envFor('owner', url), ...env }, cwd: home, columns, rows })
const HOME = '\u001b[H'
/** Each picture of the screen, as text. */
const framesIn = ({ out }: Ran): string[] =>
  out
    .split(HOME)
    .slice(1)
    .map((frame) => stripVTControlCharacters(frame).replaceAll('\r', ''))
const lastFrame = (ran: Ran): string => framesIn(ran).at(-1)!
/** As long as a person needs to read. */
const read = (on: string, keysPressed: string): Press[] => [[on, keysPressed, 400]]
const ESC = '\u001b'

describe('inbox at a terminal', () => {
  test('answers with one key each, and says afterwards what was answered', async () => {
    await cleared()
    const approve = await approving('First', { details: { sha: '1f0c' } })
    const reject = await approving('Second', { reject_requires_reason: true })
    const decide = await asked({ action: 'DECIDE', payload: { question: 'Third', options: ['red', 'green'] } })
    const ran = await live([
      ...read('First', 'a'),
      ['✔ approved: First', ''],
      ...read('2 of 3', 'r'),
      ['Why not?', 'No budget.'],
      ['budget.', '\r'],
      ['✔ rejected: Second', ''],
      ...read('3 of 3', '2'),
      ['✔ answered "green": Third', 'q'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    const after = ran.out.split('\u001b[?1049l')[1]!
    assert.match(
      stripVTControlCharacters(after),
      /✔ approved: First \(hxp_\w+\)\r\n✔ rejected: Second \(hxp_\w+\)\r\n✔ answered "green": Third/,
    )
    assert.equal((await receiptOf(approve)).result, 'approved')
    assert.deepEqual([(await receiptOf(reject)).result, (await receiptOf(reject)).reason], ['rejected', 'No budget.'])
    assert.equal((await receiptOf(decide)).result, 'green')
  })

  test('says that an agent asks, which, for whom, and what each answer does', async () => {
    await cleared()
    await asked({
      priority: 'critical',
      risk: 'R3',
      timeout_seconds: 3_600,
      payload: { item: 'Wipe', context: 'It must be.', details: { disk: 'sda' } },
    })
    const ran = await live([...read('1 open, 1 critical', 'q')])
    const frame = lastFrame(ran)
    for (const message of [
      'Inbox of Owner · 1 open, 1 critical',
      '> !! R3 approval   Wipe',
      'An agent asks: Robot (agent_robot), for Owner (user_owner)',
      'disk: sda',
      'The agent says:\n   │ It must be.',
      'critical priority · risk R3 of 5 (moderate)',
      'Approve: ',
      'Reject: ',
      'Without an answer: at 20',
      'Decline: ',
      'a approve  r reject  d decline  enter open  / filter  s snooze  ? help  q quit',
    ])
      assert.ok(frame.includes(message), `${message}\n${frame}`)
    assert.ok(frame.split('\n').every((line) => line.length <= 80))
    assert.equal(frame.split('\n').length, 24)
  })

  test('agent text does nothing to the terminal, and odd characters are flagged', async () => {
    await cleared()
    await approving('Pаy the bill', { details: { note: '\u001b[2J\u001b[31mPWNED\u0007\u009b5n' }, context: 'a\u202Eb' })
    const ran = await live([...read('the bill', 'q')])
    assert.ok(
      !ran.out.includes('\u001b[2J\u001b[31m') && !ran.out.includes('\u0007') && !ran.out.includes('\u009b') && !ran.out.includes('\u202e'),
    )
    assert.ok(ran.out.includes('PWNED'))
    assert.match(lastFrame(ran), /Warning: /)
  })

  test('a secret is typed unseen, and a question goes to the agent', async () => {
    await cleared()
    const secret = await asked({ action: 'PROVIDE', payload: { prompt: 'The password', input_type: 'text' } })
    const ran = await live([
      ...read('The password', 'm'),
      ['Your question to the agent', 'Whose?'],
      ['Whose?', '\r'],
      ['Asked: the reply appears here', ''],
      ...read('Whose?', 'p'),
      // One letter wrong, one forgotten, the cursor moved there and back.
      ['Your answer', `hXntr2${ESC}[H${ESC}[C${ESC}[3~u${ESC}OF${ESC}[D${ESC}[De`],
      ['hunte▏r2', '\u0005\r'],
      ['✔ provided', 'q'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    assert.equal((await receiptOf(secret)).result, 'hunter2')
    await cleared()
    await asked({ action: 'PROVIDE', payload: { prompt: 'The secret', input_type: 'text', sensitive: true } })
    const hidden = await live([...read('The secret', 'p'), ['(not shown)', 'hunter3'], ['•••••••', '\r'], ['✔ provided', 'q']])
    assert.equal(hidden.code, 0, lastFrame(hidden))
    assert.ok(!hidden.out.includes('hunter3') && !hidden.out.includes('> h'))
  })

  test('snoozes, filters, helps and refreshes', async () => {
    await cleared()
    const later = await approving('Later')
    await asked({ priority: 'high', payload: { item: 'Now' } })
    const ran = await live([
      ['Later', '?'],
      ['any other key goes back', 'x'],
      ['enter open', '/'],
      ['Filter:', 'priority:high'],
      ['priority:high', '\r'],
      ['1 with filter: priority:high', '/'],
      // The filter is there to be edited.
      ['> priority:high', '\u0015lat'],
      ['> lat', '\r'],
      ['1 with filter: lat', 's'],
      ['Snooze until', '30m'],
      ['30m', '\r'],
      ['it comes back at', '\u000c'],
      ['Nothing fits the filter. 1 item waits for you', '\u0003'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    const filtered = framesIn(ran).find((frame) => frame.includes('1 with filter: priority:high'))!
    assert.ok(filtered.includes('Now') && !filtered.includes('Later'))
    const { items } = await owner.execution.inbox.list({ snoozed: true })
    assert.ok(items.some(({ request_id }) => request_id === later))
    const wrong = await live([
      ['Now', '/'],
      ['Filter:', 'priority:none'],
      ['none', '\r'],
      ['must be', 'q'],
    ])
    assert.equal(wrong.code, 0)
  })

  test('items decided by others are shown as decided, new ones appear, and the selection does not move', async () => {
    await cleared()
    const first = await approving('Mine')
    const ran = await live([
      ['Mine', () => owner.execution.request.resolve({ request_id: first, result: 'rejected' })],
      ['completed by Owner', 'a'],
      ['It is completed by Owner already', () => asked({ priority: 'critical', payload: { item: 'Fresh' } })],
      ['Fresh', 'q'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    assert.match(lastFrame(ran), /\n> {7}approval {3}Mine .*completed by Owner *\n {2}!! {4}approval {3}Fresh /, 'where it was, and chosen')
    assert.equal((await receiptOf(first)).result, 'rejected')
  })

  test('an answer counts for what was shown: what has changed unseen is shown again first', async () => {
    await cleared()
    const id = await approving('Changing')
    // Nothing is heard of changes here.
    const proxy = await openProxy(Number(new URL(server.url).port), (_, { operation }) =>
      Promise.resolve(!operation.startsWith('execution/inbox.follow')),
    )
    const presses: Press[] = [
      ['Changing', () => owner.execution.request.question({ request_id: id, text: 'Why?' })],
      ...read('', 'a'),
      ['It has changed since', ''],
      ...read('Why?', 'a'),
      ['✔ approved', 'q'],
    ]
    const ran = await live(presses, { url: proxy.url })
    await proxy.close()
    assert.equal(ran.code, 0, lastFrame(ran))
    assert.ok(framesIn(ran).some((frame) => frame.includes('It has changed since it was shown: read it again')))
    assert.equal((await receiptOf(id)).result, 'approved')
  })

  test('a card that does not fit is read to its end before it is answered', async () => {
    await cleared()
    const details = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`line ${i}`, 'x'.repeat(60)]))
    const id = await approving('Long', { details })
    const ran = await live([
      ...read('more lines: enter opens it', 'a'),
      ['Scroll to the end', 'a'],
      ['Scroll to the end', `${ESC}[F`],
      ...read('No deadline', 'a'),
      ['✔ approved', 'q'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    assert.equal((await receiptOf(id)).result, 'approved')
  })

  test('concurrent keys, pasted text and unknown sequences decide nothing; a high risk needs its phrase', async () => {
    await cleared()
    const id = await asked({ risk: 'R4', payload: { item: 'Risky' } })
    const phrase = await phraseOf(id)
    const ran = await live([
      ...read('Risky', 'aa'),
      ['', `${ESC}[200~a${ESC}[201~`],
      ['', `${ESC}[1;5a`],
      ...read('', 'a'),
      ['Its risk is R4 of 5 (high). Approve? Type ', 'y'],
      ['> y', '\r'],
      ['Nothing was answered: that is not ', 'a'],
      ['Its risk is R4 of 5 (high). Approve? Type ', phrase],
      [`> ${phrase}`, '\r'],
      ['✔ approved', 'q'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    assert.equal(framesIn(ran).filter((frame) => frame.includes('sending…')).length > 0, true)
    assert.equal((await receiptOf(id)).result, 'approved')
  })

  for (const [columns, rows] of [
    [80, 24],
    [30, 10],
    [12, 5],
    [200, 50],
  ] as const) {
    test(`fits a terminal of ${columns} by ${rows}, without colours where none are wanted`, async () => {
      await cleared()
      await approving('A title that is much longer than what a narrow terminal has room for, 漢字 too', { details: { a: 'b'.repeat(300) } })
      await asked({ priority: 'low', payload: { item: 'Another' } })
      const ran = await live([...read('> ', '\r'), ...read('', ESC), ...read('', 'q')], { columns, rows, env: { NO_COLOR: '1' } })
      assert.equal(ran.code, 0)
      for (const frame of framesIn(ran).slice(0, -1)) {
        const lines = frame.split('\n')
        assert.ok(lines.length <= rows, `${lines.length} lines`)
        assert.ok(
          lines.every((line) => line.length <= columns),
          frame,
        )
      }
      assert.doesNotMatch(ran.out, /\u001b\[[\d;]*m/, 'no colours') // oxlint-disable-line no-control-regex
      assert.match(framesIn(ran)[0]!, /> /)
    })
  }

  test('is redrawn when the window changes its size, and leaves the terminal as it was', async () => {
    await cleared()
    await approving('Wide and narrow')
    const sign = join(home, 'narrow')
    const command = `(until test -e ${sign}; do sleep 0.1; done; stty cols 40 rows 12 < /dev/tty) & exec ${process.execPath} ${join(import.meta.dirname, '../../..', 'bin/countersign.js')} inbox`
    const ran = await runShellInTerminal(command, [['─'.repeat(60), () => writeFile(sign, '')], ['\u001b[2J', ''], ...read('Wide', 'q')], { env: envFor('owner'), cwd: home, columns: 80, rows: 24 }) // prettier-ignore
    assert.equal(ran.code, 0)
    const frames = framesIn(ran)
    assert.equal(frames[0]!.split('\n').length, 24)
    assert.ok(frames.at(-1)!.split('\n').length <= 12)
    assert.ok(ran.out.includes('\u001b[?1049h') && ran.out.trimEnd().endsWith('\u001b[?25h\u001b[?1049l'))
  })

  test('a dumb terminal gets the list', async () => {
    const { code, out } = await live([], { env: { TERM: 'dumb' } })
    assert.equal(code, 0)
    assert.match(out, /^REQUEST/)
  })
})
