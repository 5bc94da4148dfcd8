// The inbox at a terminal beyond single answers: search and counts over everything, keys, several items together, parts and edits of an answer,
// reviews with what was delivered, and a server that goes away.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { createKeyboard, type Key } from '#apps/cli/input/keyboard.ts'
import { editLine, newLine } from '#apps/cli/input/line-editor.ts'
import { patchOf } from '#apps/cli/inbox/edit.ts'
import { filterFrom, filterOf } from '#apps/cli/inbox/filter.ts'
import { runInTerminal, type Press, type Ran } from '../../../support/as-processes/cli.ts'
import { openInbox } from '../../../support/as-processes/inbox-people.ts'

const { home, server, owner, agent, envFor, run, close } = await openInbox('cli-inbox-screen')
after(close)

type Place = { env?: Record<string, string>; url?: string }
const live = (presses: readonly Press[], { env = {}, url = server.url }: Place = {}, argv: string[] = []): Promise<Ran> =>
  runInTerminal(['inbox', ...argv], presses, { env: { ...envFor('owner', url), ...env }, cwd: home, columns: 80, rows: 24 })
const framesIn = ({ out }: Ran): string[] => out.split('\u001b[H').slice(1).map((frame) => stripVTControlCharacters(frame).replaceAll('\r', '')) // prettier-ignore
const lastFrame = (ran: Ran): string => framesIn(ran).at(-1)!
/** As long as a person needs to read. */
const read = (on: string, pressed: string): Press => [on, pressed, 400]
const ESC = '\u001b'

const approving = async (item: string, more: object = {}): Promise<string> =>
  (await agent.execution.request.create({ action: 'APPROVE', risk: 'R1', payload: { item }, ...more })).request.id
const resultOf = async (request_id: string): Promise<unknown> => (await owner.execution.request.get({ request_id })).receipt?.result
async function started(): Promise<string> {
  const { task } = await owner.collaboration.task.create({ spec: { goal: 'Fix the login' } })
  await owner.collaboration.task.assign({ task_id: task.id, assignee: 'agent_robot' })
  await agent.collaboration.task.start({ task_id: task.id })
  return task.id
}
const textOf = (text: string) => ({ kind: 'inline' as const, uri: `data:text/plain,${encodeURIComponent(text)}` })
async function cleared(): Promise<void> {
  for (
    let page = await owner.execution.inbox.list({ limit: 200 });
    page.items.length > 0;
    page = await owner.execution.inbox.list({ limit: 200 })
  )
    for (const { request_id, task_id } of page.items)
      await (task_id === null ? agent.execution.request.cancel({ request_id }) : owner.collaboration.task.cancel({ task_id }))
}

describe('the inbox at a terminal', () => {
  test('finds items beyond the first page, counts truly, shows flags as a filter, and goes to both ends', async () => {
    for (let i = 0; i < 130; i++) await approving(`Deploy service ${i}`)
    await approving('The needle', { priority: 'low' })
    const ran = await live([
      read('131 open', '/'),
      ['Filter:', 'NEEDLE'],
      ['> NEEDLE', '\r'],
      ['1 with filter: NEEDLE', ESC],
      // One esc too many ends nothing.
      ['1 of 131', ESC],
      ['q quits', 'G'],
      ['131 of 131', `${ESC}[1~`],
      ['1 of 131', `${ESC}OF`],
      ['131 of 131', 'g'],
      ['1 of 131', `${ESC}[6~`],
      ['9 of 131', 'q'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    const found = framesIn(ran).find((frame) => frame.includes('1 with filter: NEEDLE'))!
    assert.match(found, /131 open/)
    assert.match(found, /\n> - +R1 approval +The needle/)
    assert.ok(
      framesIn(ran).every((frame) => !/\d\+ open|of \d+\+/.test(frame)),
      'no number is a guess',
    )
    const none = await live([['131 items wait for you', 'q']], {}, ['--kind', 'escalation'])
    assert.match(lastFrame(none), /0 with filter: kind:escalation\nNothing fits the filter\. 131 items wait for you/)
    await cleared()
  })

  test('marks several, answers them together, and only after each was read', async () => {
    const [one, two, three] = [await approving('One'), await approving('Two'), await approving('Three')]
    const ran = await live([
      read('3 open', ' '),
      read('1 marked', ' '),
      read('2 marked', 'a'),
      ['✔ approved: 2 items', ''],
      read('3 of 3', 'r'),
      ['✔ rejected: Three', 'q'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    assert.deepEqual([await resultOf(one), await resultOf(two), await resultOf(three)], ['approved', 'approved', 'rejected'])
    const long = await approving('Long', { payload: { item: 'Long', details: Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`k${i}`, i])) } }) // prettier-ignore
    const short = await approving('Short')
    const unread = await live([read('2 open', ' '), read('1 marked', ' '), read('2 marked', 'a'), ['Scroll to the end', 'q']])
    assert.equal(unread.code, 0, lastFrame(unread))
    assert.deepEqual([await resultOf(long), await resultOf(short)], [undefined, undefined])
    await cleared()
  })

  test('says when the server is gone, and when it is back', async () => {
    await approving('Still here')
    const cut = await openCut(Number(new URL(server.url).port))
    const ran = await live(
      [
        read('Still here', ''),
        ['', () => cut.close()],
        ['DISCONNECTED', () => cut.open()],
        ['Inbox of Owner · 1 open', () => approving('New')],
        ['2 open', 'q'],
      ],
      { url: cut.url },
    )
    await cut.close()
    assert.equal(ran.code, 0, lastFrame(ran))
    assert.match(
      framesIn(ran).find((frame) => frame.includes('DISCONNECTED'))!,
      /^DISCONNECTED \d+s, trying again · Inbox of Owner/,
    )
    assert.doesNotMatch(lastFrame(ran), /DISCONNECTED/)
    await cleared()
  })

  test('gives the terminal back on Ctrl-Z and takes it again', async () => {
    await approving('Waiting')
    const ran = await live([read('1 open', '\u001a'), ['\u001b[?1049l', ''], ['\u001b[?1049h', ''], ['1 open', 'q']])
    assert.equal(ran.code, 0, lastFrame(ran))
    assert.equal(ran.out.split('\u001b[?1049l')[1]!.split('\u001b[?1049h')[0]!.includes('Waiting'), false, 'nothing is drawn in between')
    await cleared()
  })
})

describe('an answer in part', () => {
  const proposed_actions = [
    { id: 'add', kind: 'sql', summary: 'Add a column', risk: 'low' as const },
    { id: 'drop', kind: 'cap:drop-table', summary: 'Look up the weather', detail: '{"table":"users"}', risk: 'high' as const },
  ]
  test('approves some of the proposed actions, each shown with its risk; the others are denied', async () => {
    const { checkpoint } = await agent.collaboration.checkpoint.raise({ task_id: await started(), kind: 'approval', prompt: 'Migrate?', proposed_actions }) // prettier-ignore
    const [listed] = (await owner.execution.inbox.list({})).items
    const phrase = (await owner.execution.inbox.get({ request_id: listed!.request_id })).item.guard.confirm!
    const ran = await live([
      read('x approve some', 'x'),
      ['not chosen are denied', ' '],
      ['[x]', '\r'],
      ['1 of 2 actions may be taken, 1 denied', `${phrase}\r`],
      ['✔ approved 1 of 2 actions', 'q'],
    ])
    assert.equal(ran.code, 0, lastFrame(ran))
    const card = framesIn(ran)[0]!
    const action = / 2 high {4}│ cap:drop-table\n {11}│ Look up the weather\n {11}│ \{"table":"users"\}\n/
    assert.match(card, new RegExp(` 1 low {5}│ sql\\n {11}│ Add a column\\n${action.source}`))
    assert.match(
      framesIn(ran).find((frame) => frame.includes('[x]'))!,
      / 2 high {4}│ cap:drop-table\n {17}│ Look up the weather\n {17}│ \{"table":"users"\}\n/,
    )
    const shown = await run(['checkpoint', 'show', checkpoint.id])
    assert.match(shown.out.replaceAll(/\s+(│ )?/g, ' '), / id=drop kind=cap:drop-table summary="Look up the weather" /)
    const { resolution } = (await owner.collaboration.checkpoint.get({ checkpoint_id: checkpoint.id })).checkpoint
    assert.deepEqual([resolution?.approved_actions, resolution?.denied_actions], [['add'], ['drop']])
  })

  test('edits the state that the agent showed, and the run continues with it', async () => {
    const { checkpoint } = await agent.collaboration.checkpoint.raise({ task_id: await started(), kind: 'approval', prompt: 'Go on?', state: { limit: 5, name: 'a' } }) // prettier-ignore
    const env = { VISUAL: "sed -i 's/5/7/'" }
    const ran = await live([read('e edit', 'e'), ['Your changes go along. Approve?', 'y\r'], ['✔ approved with an edited state', 'q']], {
      env,
    })
    assert.equal(ran.code, 0, lastFrame(ran))
    const { resolution } = (await owner.collaboration.checkpoint.get({ checkpoint_id: checkpoint.id })).checkpoint
    assert.deepEqual([resolution?.state_patch, resolution?.state], [{ limit: 7 }, { limit: 7, name: 'a' }])
  })

  test('edits the artifact that it is about', async () => {
    const task_id = await started()
    const { artifact } = await agent.collaboration.artifact.commit({ task_id, type: 'text', payload: textOf('five\n'), final: false })
    const { checkpoint } = await agent.collaboration.checkpoint.raise({
      task_id,
      kind: 'approval',
      prompt: 'Is it right?',
      context: [{ kind: 'artifact', artifact_id: artifact.id, version: 'v1' }],
    })
    const env = { VISUAL: "sed -i 's/five/seven/'" }
    const ran = await live([read('e edit', 'e'), ['Your changes go along. Approve?', 'y\r'], ['✔ approved with an edited artifact', 'q']], {
      env,
    })
    assert.equal(ran.code, 0, lastFrame(ran))
    const { resolution } = (await owner.collaboration.checkpoint.get({ checkpoint_id: checkpoint.id })).checkpoint
    assert.deepEqual(resolution?.edited_artifact_ref, { artifact_id: artifact.id, version: 'v2' })
    await cleared()
  })
})

test('a review shows what was delivered and what changed, and takes approve, request changes and reject', async () => {
  const task_id = await started()
  const { artifact } = await agent.collaboration.artifact.commit({ task_id, type: 'patch', payload: textOf('one\ntwo\n') })
  const sent = await live([read('│ two', 'c'), ['Changes to make?', 'Digits.'], ['> Digits.', '\r'], ['✔ changes_requested', 'q']])
  assert.equal(sent.code, 0, lastFrame(sent))
  assert.ok(framesIn(sent).some((frame) => frame.includes('Delivered: patch v1 (8 B):\n   │ one\n   │ two\n')))
  await agent.collaboration.artifact.commit({ task_id, artifact_id: artifact.id, parent_version: 'v1', payload: textOf('one\n2\n') })
  const { request_id } = (await owner.execution.inbox.list({ kind: 'review' })).items[0]!
  const { out } = await run(['inbox', 'show', request_id])
  assert.ok(out.includes('Delivered: patch v2 (6 B), changes since v1:\n   │  one\n   │ -two\n   │ +2\n'), out)
  const said = await run(['inbox', 'answer', request_id, 'approve'])
  assert.match(said.out, /^✔ approved: Review the deliverable \(patch, v2\): Fix the login \(receipt rcp_\w+\)\n$/)
  assert.equal((await owner.collaboration.task.get({ task_id })).task.state, 'completed')
})

test('a deliverable that is not shown is not approved, unless its version is named', async () => {
  const task_id = await started()
  await agent.collaboration.artifact.commit({ task_id, type: 'image', payload: textOf('a\0b') })
  const ran = await live([read('which is not text', 'a'), ['It cannot be shown here: open the review on the page', 'q']])
  assert.equal(ran.code, 0, lastFrame(ran))
  const { request_id } = (await owner.execution.inbox.list({ kind: 'review' })).items[0]!
  for (const message of [
    ['inbox', 'answer', request_id, 'approve'],
    ['review', 'approve', task_id],
  ]) {
    const { code, err } = await run(message)
    assert.deepEqual([code, /cannot be shown here/.test(err)], [2, true], err)
  }
  assert.equal((await owner.collaboration.task.get({ task_id })).task.state, 'review_ready')
  assert.equal((await run(['review', 'approve', task_id, '--version', 'v1'])).code, 0)
  assert.equal((await owner.collaboration.task.get({ task_id })).task.state, 'completed')
})

describe('answers in scripts', () => {
  test('say what they did', async () => {
    const asked = await approving('Deploy v2')
    assert.match((await run(['inbox', 'answer', asked, 'no'])).out, /^✔ rejected: Deploy v2 \(receipt rcp_\w+\)\n$/)
    const { request } = await agent.execution.request.create({ action: 'DECIDE', payload: { question: 'Where?', options: ['eu', 'us'] } })
    assert.match((await run(['inbox', 'answer', request.id, 'us'])).out, /^✔ answered "us": Where\? \(receipt rcp_\w+\)\n$/)
    const secret = await agent.execution.request.create({ action: 'PROVIDE', payload: { prompt: 'The key', input_type: 'text', sensitive: true } }) // prettier-ignore
    const given = await run(['inbox', 'answer', secret.request.id, '-'], 'owner', 'hunter2\n')
    assert.match(given.out, /^✔ provided a secret: The key \(receipt rcp_\w+\)\n$/)
    const { checkpoint } = await agent.collaboration.checkpoint.raise({ task_id: await started(), kind: 'approval', prompt: 'Go?' })
    assert.match((await run(['inbox', 'show', checkpoint.id])).out, /^An agent asks: .*\n {3}│ Go\?\n/)
    assert.match((await run(['inbox', 'answer', checkpoint.id, 'approve'])).out, /^✔ approved: Go\? /)
    const old = await run(['checkpoint', 'answer'])
    assert.deepEqual([old.code, /is now `countersign inbox`/.test(old.err)], [2, true])
  })

  test('of which one was refused end with 1, and the others count', async () => {
    const [one, two] = [await approving('One'), await approving('Two')]
    const { items } = await owner.execution.inbox.list({})
    const answers = items.map(({ request_id, digest }) => ({
      request_id,
      result: 'approved',
      digest: request_id === two ? 'stale' : digest,
    }))
    const ran = await run(['inbox', 'resolve', '--json-input', JSON.stringify({ answers })])
    assert.equal(ran.code, 1)
    assert.match(ran.out, new RegExp(`✔ ${one} answered \\(receipt rcp_\\w+\\)\\n✖ ${two} not answered: .+ \\[CHANGED\\]\\n`))
    const rest = answers.filter(({ request_id }) => request_id === two).map((answer) => ({ ...answer, digest: items.find(({ request_id }) => request_id === two)!.digest })) // prettier-ignore
    assert.equal((await run(['inbox', 'resolve', '--json', '--json-input', JSON.stringify({ answers: rest })])).code, 0)
    await cleared()
  })
})

describe('keys and words', () => {
  test('Home and End are understood in every spelling', () => {
    const pressed: string[] = []
    const reader = createKeyboard((all) => pressed.push(...all.map(({ name }) => name)))
    for (const spelling of ['[H', 'OH', '[1~', '[7~', '[F', 'OF', '[4~', '[8~', '[3~']) reader.push(`${ESC}${spelling}`)
    reader.stop()
    assert.deepEqual(pressed, ['home', 'home', 'home', 'home', 'end', 'end', 'end', 'end', 'delete'])
  })

  test('a line is edited at the cursor, by grapheme', () => {
    const named = (name: string, text = ''): Key => ({ name, text })
    const after = (text: string, ...typed: Key[]): { text: string; at: number } => typed.reduce(editLine, newLine(text))
    assert.deepEqual(after('ab', named('left'), named('character', 'x')), { text: 'axb', at: 2 })
    assert.deepEqual(after('ae\u0301👍🏽', named('backspace'), named('backspace')), { text: 'a', at: 1 })
    assert.deepEqual(after('abc', named('home'), named('delete'), named('end'), named('paste', 'd')), { text: 'bcd', at: 3 })
    assert.deepEqual(after('one two', named('ctrl-w')), { text: 'one ', at: 4 })
    assert.deepEqual(after('one two', named('ctrl-a'), named('ctrl-k')), { text: '', at: 0 })
    assert.deepEqual(after('ab', named('home'), named('left'), named('up')), { text: 'ab', at: 0 })
  })

  test('a filter is fields, words, quotes and a saved name; flags are written the same way', () => {
    assert.deepEqual(filterFrom('priority:high action:decide agent:"my agent" big @mine "a b"', { person: 'user_x' }).query, {
      person: 'user_x',
      priority: 'high',
      action: 'DECIDE',
      agent_id: 'my agent',
      filter: 'mine',
      text: 'big a b',
    })
    const { text } = filterOf({ kind: 'review', agent_id: 'my agent', filter: 'mine', text: 'login' })
    assert.equal(text, 'kind:review agent:"my agent" @mine login')
    assert.deepEqual(filterFrom(text, {}).query, { kind: 'review', agent_id: 'my agent', filter: 'mine', text: 'login' })
    assert.deepEqual(filterFrom('http://x kind:', {}).query, { text: 'http://x kind:' })
  })

  test('an edited state is a merge patch, which cannot set a field to null', () => {
    assert.deepEqual(patchOf({ a: 1, b: { c: 2, d: 3 }, e: [1] }, { a: 1, b: { c: 4 }, e: [1, 2] }), { b: { c: 4, d: null }, e: [1, 2] })
    assert.deepEqual(patchOf([1], [2]), [2])
    assert.throws(() => patchOf({ a: 1 }, { a: null }), /cannot be set to null/)
  })
})

/** A way to the server that can be cut and opened again at the same address. */
async function openCut(port: number): Promise<{ url: string; close(): Promise<void>; open(): Promise<void> }> {
  const sockets = new Set<Socket>()
  const listen = async (at: number): Promise<Server> => {
    const made = createServer((from) => {
      const to = connect(port, '127.0.0.1')
      for (const socket of [from, to]) sockets.add(socket.on('error', () => undefined).on('close', () => sockets.delete(socket)))
      from.pipe(to).pipe(from)
    }).listen(at, '127.0.0.1')
    await once(made, 'listening')
    return made
  }
  let door: Server | null = await listen(0)
  const own = (door.address() as AddressInfo).port
  return {
    url: `http://127.0.0.1:${own}`,
    async close() {
      const closing = door
      door = null
      if (closing === null) return
      const closed = once(closing, 'close')
      closing.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
    async open() {
      door = await listen(own)
    },
  }
}
