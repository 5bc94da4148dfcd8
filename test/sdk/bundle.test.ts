// Bundles: those of every kind are genuine, every change of a field, a line or a signature is refused with its line, and a verifier that shares no
// code with ours says the same.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test, after } from 'node:test'
import { gzipSync } from 'node:zlib'
import { verifyBundle, type BundleVerdict } from '#sdk/bundle/verify.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { createSha256, sha256HexOf } from '#kernel/log/bundle/sha256.ts'
import { inProcess } from '../support/as-processes/cli.ts'
import { makeBundles, type Bundles } from '../support/log/bundles.ts'
import { logFolder } from '../support/log/served.ts'

const ends: (() => unknown)[] = []
const t = { after: (end: () => unknown) => void ends.push(end) }
let made: Bundles
const kinds: Record<string, string> = {}

before(async () => {
  made = await makeBundles(t)
  kinds['a project'] = await made.export({ project_id: 'project_default' })
  kinds['identity'] = await made.export({ project_id: 'system' })
  kinds['a task'] = await made.export({ id: made.task })
  kinds['a request'] = await made.export({ id: made.request })
  kinds['a person'] = await made.export({ id: 'user_alice' })
})
after(async () => {
  for (const end of ends.toReversed()) await end()
})

const verified = (bundle: string, policy = made.policy): Promise<BundleVerdict> => verifyBundle(bundle, policy)
/** With a count and a digest that fit the changed lines, as a forger makes them. */
function resealed(lines: readonly string[]): string {
  const body = lines.slice(0, -1).map((line) => `${line}\n`)
  const sha256 = createSha256()
  for (const line of body) sha256.update(new TextEncoder().encode(line))
  const last = JSON.parse(lines.at(-1)!)
  return `${body.join('')}${canonical({ ...last, lines: body.length, sha256: sha256HexOf(sha256) })}\n`
}
const linesOf = (bundle: string): string[] => bundle.slice(0, -1).split('\n')

test('the running SHA-256 goes on from its state', () => {
  const text = new TextEncoder().encode('a'.repeat(200))
  for (const cut of [0, 1, 55, 63, 64, 65, 128, 200]) {
    const first = createSha256()
    first.update(text.subarray(0, cut))
    const next = createSha256(first.state())
    next.update(text.subarray(cut))
    assert.equal(sha256HexOf(next), 'c2a908d98f5df987ade41b5fce213067efbcc21ef2240212a41e54b5e7c28ae5', String(cut))
  }
  assert.throws(() => createSha256('no state'), RangeError)
})

describe('bundles of every kind', () => {
  test('are genuine, and say who vouches and how complete they are', async () => {
    for (const [kind, bundle] of Object.entries(kinds)) {
      const verdict = await verified(bundle)
      assert.ok(verdict.genuine, `${kind}: ${JSON.stringify(verdict)}`)
      assert.deepEqual(
        verdict.witnesses.map(({ name }) => name),
        ['w1.example', 'w2.example'],
        kind,
      )
      assert.equal(verdict.origin, 'lab.example/log')
      assert.equal(verdict.complete !== null, kind === 'a project' || kind === 'identity', kind)
      assert.equal(verdict.receipts, ['a project', 'a request'].includes(kind) ? 1 : 0, kind)
    }
    const { complete } = (await verified(kinds['a project']!)) as BundleVerdict & { genuine: true }
    assert.deepEqual([complete?.project_id, complete?.from], ['project_default', 1])
  })

  test('are read in pages that are one file', async () => {
    const { served, task, asAlice } = made
    const entry = { task_id: task, key: 'notes', value: 'n'.repeat(60_000) }
    for (let i = 0; i < 20; i++) await asAlice('collaboration/ledger.write', { ...entry, key: `notes_${i}` })
    await served.covered()
    const input = { id: task }
    const first = await served.call('collaboration/audit.export', input)
    assert.ok(first.next_cursor !== null && first.ndjson.length < 1_200_000, 'the first page is not all of it')
    // Facts that come in between are left for the next export.
    await asAlice('collaboration/ledger.write', { ...entry, key: 'notes_later' })
    const second = await served.call('collaboration/audit.export', { ...input, cursor: first.next_cursor })
    assert.equal(second.next_cursor, null)
    const verdict = await verified(first.ndjson + second.ndjson)
    assert.equal(verdict.genuine, true, JSON.stringify(verdict))
    const damaged = Buffer.from(first.next_cursor, 'base64url').toString().replace('"p":"facts"', '"p":"nothing"')
    for (const cursor of [Buffer.from(damaged).toString('base64url'), 'AAAA'])
      assert.equal((await served.call('collaboration/audit.export', { ...input, cursor })).error.code, 'INVALID_REQUEST')
  })

  test('of a stretch of time are a selection, complete where they begin with number 1', async () => {
    await made.served.covered()
    const { items } = await made.served.call('collaboration/audit.query', { project_id: 'project_default' })
    const [first, second] = items
    const early = (await verified(await made.export({ project_id: 'project_default', to: first.at }))) as BundleVerdict & { genuine: true }
    assert.deepEqual([early.genuine, early.complete?.from], [true, 1])
    const late = (await verified(await made.export({ project_id: 'project_default', from: second.at }))) as BundleVerdict & {
      genuine: true
    }
    assert.deepEqual([late.genuine, late.complete], [true, null], JSON.stringify(late))
    for (const input of [
      { project_id: 'project_default', to: '2020-01-01T00:00:00Z' },
      { id: made.task, project_id: 'project_default' },
      { from: 'x' },
    ])
      assert.equal((await made.served.call('collaboration/audit.export', input)).error.code, 'INVALID_REQUEST', JSON.stringify(input))
    for (const id of ['task_01M7GMWX16CYD5TMA0423FKEE4', 'nothing', 'hxp_x'])
      assert.equal((await made.served.call('collaboration/audit.export', { id })).error.code, 'NOT_FOUND', id)
  })

  test('of another log, or of a log without enough witnesses, are refused', async () => {
    const bundle = kinds['a task']!
    const last = linesOf(bundle).length
    const [log] = made.policy.split('\n')
    const alone = `${log}\nquorum none\n`
    assert.equal((await verified(bundle, alone)).genuine, true)
    const lines = linesOf(bundle)
    const end = JSON.parse(lines.at(-1)!)
    const without = {
      ...end,
      checkpoint: end.checkpoint
        .split('\n')
        .filter((line: string) => !line.includes('w2.example'))
        .join('\n'),
    }
    const one = resealed([...lines.slice(0, -1), canonical(without)])
    assert.equal((await verified(one, alone)).genuine, true)
    assert.deepEqual(await verified(one), {
      genuine: false,
      line: last,
      what: 'too few witnesses: the policy asks for both, and 1 of its witnesses have seen this checkpoint',
    })
    const other = made.policy.replace('lab.example/log+', 'other.example/log+')
    await assert.rejects(verified(bundle, other), /has the id/)
    await assert.rejects(verified(bundle, 'quorum none\n'), /names no log/)
    await assert.rejects(verified(bundle, `${log}\n`), /names no quorum/)
  })
})

describe('changed bundles', () => {
  /** The value with one leaf changed, for each leaf. */
  function* mutations(value: unknown, path = ''): Generator<readonly [path: string, changed: unknown]> {
    if (Array.isArray(value)) {
      for (const [i, held] of value.entries())
        for (const [at, changed] of mutations(held, `${path}/${i}`)) yield [at, value.with(i, changed)]
      if (value.length > 0) yield [`${path}/-`, value.slice(1)]
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, held] of Object.entries(value)) {
        for (const [at, changed] of mutations(held, `${path}/${name}`)) yield [at, { ...value, [name]: changed }]
        const { [name]: _, ...rest } = value as Record<string, unknown>
        yield [`${path}/${name}-`, rest]
      }
      yield [`${path}/+`, { ...value, unknown: 1 }]
    } else if (typeof value === 'string') yield [path, value === '' ? 'x' : `${value.slice(0, -1)}${value.endsWith('A') ? 'B' : 'A'}`]
    else if (typeof value === 'number') yield [path, value + 1]
    else if (typeof value === 'boolean') yield [path, !value]
    else yield [path, 'null']
  }
  /** What no signature covers: the words of the first line about the bundle itself. */
  const unsigned = /^\/(made_at|about\/(id|kind))$/

  test('in any field are refused at their line, also under a digest that fits', async () => {
    const lines = linesOf(kinds['a request']!)
    let count = 0
    for (const [i, line] of lines.slice(0, -1).entries())
      for (const [path, changed] of mutations(JSON.parse(line))) {
        // A fact without a proof of its own is proven by the next one of its project, and a request is a help for the reader.
        if ((i === 0 && unsigned.test(path)) || ['/fact/proof-', '/request-'].includes(path)) continue
        const verdict = await verified(resealed(lines.with(i, canonical(changed))))
        // The digest of a request names it, so an exchanged one is noticed by its receipt.
        assert.deepEqual(
          [verdict.genuine, !verdict.genuine && verdict.line],
          [false, i + 1],
          `line ${i + 1} ${path}: ${JSON.stringify(verdict)}`,
        )
        count++
      }
    assert.ok(count > 100, String(count))
  })

  test('in the sealed line of any fact are refused at that fact, also where the chain alone proves it', async () => {
    const lines = linesOf(kinds['a project']!)
    let [count, unproven] = [0, 0]
    for (const [i, line] of lines.entries()) {
      const { fact } = JSON.parse(line)
      if (fact === undefined) continue
      const sealed = JSON.parse(fact.line)
      const changed = canonical({ fact: { ...fact, line: canonical({ ...sealed, actor: `${sealed.actor}x` }) } })
      const verdict = await verified(resealed(lines.with(i, changed)))
      assert.deepEqual([verdict.genuine, !verdict.genuine && verdict.line], [false, i + 1], JSON.stringify(verdict))
      count++
      if (fact.proof === undefined) unproven++
    }
    assert.ok(count > unproven && unproven > 1, `${unproven} of ${count}`)
  })

  test('in the last line are refused there', async () => {
    const lines = linesOf(kinds['a task']!)
    for (const [path, changed] of mutations(JSON.parse(lines.at(-1)!))) {
      const verdict = await verified(`${lines.with(-1, canonical(changed)).join('\n')}\n`)
      assert.deepEqual([verdict.genuine, !verdict.genuine && verdict.line], [false, lines.length], `${path}: ${JSON.stringify(verdict)}`)
    }
    const { checkpoint, ...rest } = JSON.parse(lines.at(-1)!)
    for (const [i, line] of checkpoint.split('\n').entries()) {
      if (line === '') continue
      const at = Math.floor(line.length / 2)
      const changed = checkpoint
        .split('\n')
        .with(i, `${line.slice(0, at)}${line[at] === 'A' ? 'B' : 'A'}${line.slice(at + 1)}`)
        .join('\n')
      const verdict = await verified(`${lines.with(-1, canonical({ ...rest, checkpoint: changed })).join('\n')}\n`)
      assert.deepEqual([verdict.genuine, !verdict.genuine && verdict.line], [false, lines.length], `line ${i} of the checkpoint`)
    }
  })

  test('in the place of a line are refused: removed, repeated, swapped, cut', async () => {
    const lines = linesOf(kinds['a project']!)
    for (let i = 1; i < lines.length - 1; i++) {
      assert.equal(
        (await verified(resealed(lines.toSpliced(i, 1)))).genuine,
        JSON.parse(lines[i]!).receipt !== undefined,
        `line ${i + 1} removed`,
      )
      const repeated = await verified(resealed(lines.toSpliced(i, 0, lines[i]!)))
      assert.equal(repeated.genuine, JSON.parse(lines[i]!).receipt !== undefined, `line ${i + 1} repeated`)
      if (i > 1)
        assert.equal(
          (await verified(resealed(lines.with(i, lines[i - 1]!).with(i - 1, lines[i]!)))).genuine,
          false,
          `line ${i + 1} swapped`,
        )
      assert.equal((await verified(`${lines.slice(0, i + 1).join('\n')}\n`)).genuine, false, `cut behind line ${i + 1}`)
    }
  })

  test('of another form are refused in a sentence', async () => {
    const bundle = kinds['a task']!
    const lines = linesOf(bundle)
    const cases: Record<string, readonly [text: string | Uint8Array, line: number | null, what: RegExp]> = {
      empty: ['', null, /it is empty/],
      gzip: [gzipSync(bundle), null, /compressed with gzip/],
      'a byte order mark': [`\ufeff${bundle}`, null, /byte order mark/],
      CRLF: [bundle.replaceAll('\n', '\r\n'), 1, /not canonical JSON/],
      'no end': [bundle.slice(0, -1), null, /no end/],
      'one line': [`${lines[0]}\n`, 1, /nothing follows/],
      'no JSON': ['hello\nworld\n', 1, /not JSON/],
      'repeated keys': [bundle.replace('{"fact":{', '{"fact":1,"fact":{'), 2, /not canonical JSON/],
      spaces: [bundle.replace('{"fact":', '{ "fact":'), 2, /not canonical JSON/],
      'another form': [bundle.replace('bundle/1', 'bundle/2'), 1, /form bundle\/1/],
      'not UTF-8': [Buffer.concat([Buffer.from(bundle.slice(0, 400)), Buffer.of(0xff), Buffer.from(bundle.slice(400))]), 2, /UTF-8/],
      'over 64 signatures': [
        resealed([
          ...lines.slice(0, -1),
          canonical({ ...JSON.parse(lines.at(-1)!), checkpoint: JSON.parse(lines.at(-1)!).checkpoint + '\u2014 a AAAAAAA=\n'.repeat(64) }),
        ]),
        lines.length,
        /over 64 signature lines/,
      ],
    }
    for (const [name, [content, line, what]] of Object.entries(cases)) {
      const verdict = await verifyBundle(new Blob([content as string]), made.policy)
      assert.ok(!verdict.genuine, name)
      assert.deepEqual([verdict.line, what.test(verdict.what)], [line, true], `${name}: ${verdict.what}`)
    }
  })
})

test('the command says who vouches and ends with 0, names the line and ends with 1, and ends with 2 where nothing can be tried', async () => {
  const home = logFolder(t)
  const [file, bad, policy] = ['b.ndjson', 'bad.ndjson', 'p.txt'].map((name) => join(home, name)) as [string, string, string]
  writeFileSync(file, kinds['a project']!)
  writeFileSync(bad, kinds['a project']!.replace('21 degrees', '12 degrees'))
  writeFileSync(policy, made.policy)
  const run = (...words: string[]) => inProcess({ home }).run(['audit', 'verify', ...words])
  const good = await run('--file', file, '--policy', policy)
  assert.equal(good.code, 0, good.err)
  assert.match(
    good.out,
    /✔ genuine\n.*project project_default: complete, numbers 1 to \d+, 1 receipts\n.*lab\.example\/log.*\n.*w1\.example, at 20.*\n.*w2\.example/s,
  )
  const refused = await run('--file', bad, '--policy', policy)
  assert.equal(refused.code, 1)
  assert.match(refused.out, /✖ not genuine: line \d+: the image of collaboration\.task\/\S+ was changed/)
  assert.equal(JSON.parse((await run('--file', file, '--policy', policy, '--json')).out).genuine, true)
  for (const words of [
    ['--file', file],
    ['--file', join(home, 'none'), '--policy', policy],
    ['--file', file, '--policy', join(home, 'none')],
    ['--file', file, '--policy', file],
  ])
    assert.equal((await run(...words)).code, 2, words.join(' '))
})

test('a verifier in Python that shares no code with ours judges the same', async (context) => {
  if (spawnSync('python3', ['--version']).status !== 0) return context.skip('python3 is not there: the second verifier was not run')
  const home = logFolder(t)
  const script = join(import.meta.dirname, '../support/log/verify_bundle.py')
  writeFileSync(join(home, 'p.txt'), made.policy)
  const judged = (bundle: string): number | null => {
    writeFileSync(join(home, 'b.ndjson'), bundle)
    return spawnSync('python3', [script, join(home, 'b.ndjson'), join(home, 'p.txt')]).status
  }
  for (const kind of ['a project', 'identity', 'a request']) assert.equal(judged(kinds[kind]!), 0, kind)
  const lines = linesOf(kinds['a request']!)
  const receipt = lines.findIndex((line) => line.startsWith('{"receipt"'))
  const changed = [
    resealed(lines.toSpliced(2, 1)).replace('"index":', '"index":1'),
    resealed(lines.with(receipt, lines[receipt]!.replace('approved', 'rejected'))),
    kinds['a request']!.replace('Switch', 'Swatch'),
    kinds['a project']!.replace('21 degrees', '12 degrees'),
    `${lines.slice(0, -2).join('\n')}\n`,
  ]
  for (const [i, bundle] of changed.entries()) {
    assert.equal(judged(bundle), 1, `change ${i}`)
    assert.equal((await verified(bundle)).genuine, false, `change ${i}`)
  }
})
