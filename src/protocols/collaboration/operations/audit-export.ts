// Audit: a bundle of facts with their proofs, which anyone verifies without this server, and the proof of a single fact.
import { administrator, system, SYSTEM_SCOPE, type Actor } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { query, type Context, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, placeOf } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { parseTimestamp } from '#kernel/codec/timestamps.ts'
import type { SignedHead } from '#kernel/log/record-log.ts'
import { BUNDLE, bundleLine, factLine, type About, type FirstLine, type LastLine } from '#kernel/log/bundle/bundle.ts'
import { createSha256, sha256HexOf, type RunningSha256 } from '#kernel/log/bundle/sha256.ts'
import { base64Of } from '#kernel/log/tree/base64.ts'
import {
  documentOf,
  endedRequest,
  factAt,
  factsIn,
  factsOfTask,
  historyOf,
  inOrder,
  keyFacts,
  type Plan,
  type Spot,
} from '../record/bundle-facts.ts'
import { recordKeeper, refuseForeignProject } from '../record/readers.ts'
import { Id, Timestamp } from '../schema.ts'

const About = t.Object({ id: t.String(), kind: t.String() })

type ExportInput = {
  readonly id?: string | undefined
  readonly project_id?: string | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
  readonly cursor?: string | undefined
}

const exported = query({
  name: 'audit.export',
  summary: 'Export a bundle that anyone can verify offline: facts about one thing, or of a project, with proofs, images and receipts.',
  draft: 'ours: HACP 0.1.0, Audit ("MUST NEVER be deleted or modified") made checkable by others',
  input: t.Object({
    id: t.Optional(
      t.String({
        ...Id,
        description: 'a task, request, artifact, run, person or anything else that facts are about; without it, the project',
      }),
    ),
    project_id: t.Optional(Id),
    from: t.Optional(Timestamp),
    to: t.Optional(Timestamp),
    cursor: pageInput.cursor,
  }),
  output: t.Object({
    about: About,
    origin: t.String({ description: 'the log that the proofs lead to' }),
    size: t.Integer({ description: 'the facts in the log under its checkpoint' }),
    ndjson: t.String({ description: 'the next lines of the bundle; the pages one behind the other are the file' }),
    next_cursor: nextCursor,
  }),
  callers: [system, administrator, recordKeeper],
  load: subjectOf,
  async view({ project_id }, input: ExportInput, context, read) {
    const place = placeIn(input)
    const about: About =
      input.id === undefined ? { id: project_id, kind: 'project' } : { id: input.id, kind: (await documentOf(read, input.id))!.kind }
    const { origin } = read.log()
    const page = place === null ? await firstPage(read, project_id, input) : await laterPage(read, project_id, input, place)
    const writer = writerFor(page)
    if (place === null)
      writer.write(bundleLine({ about, complete: page.isComplete, countersign: BUNDLE, made_at: context.now, origin } satisfies FirstLine))
    if (page.phase === 'facts') await writeFacts(read, page, writer)
    if (page.phase === 'receipts') await writeReceipts(read, context, page, writer)
    if (page.phase === 'end') await writeEnd(read, page, writer)
    const next_cursor = page.phase === 'done' ? null : cursorOf('audit.export', input, placeText(page, writer))
    return { about, origin, size: page.size, ndjson: writer.text(), next_cursor }
  },
  example: { given: 'completed', as: 'admin', input: ({ task }) => ({ id: task.id }) },
})

/** The project whose owners may export it. Unknown ids and those of foreign projects get the same refusal. */
async function subjectOf(read: Read, { id, project_id }: ExportInput, { actor }: { readonly actor: Actor }) {
  if (id === undefined) {
    const scope = project_id ?? 'project_default'
    refuseForeignProject(scope, actor)
    return { project_id: scope }
  }
  if (project_id !== undefined) throw new Refusal('INVALID_REQUEST', 'give either `id` or `project_id`', { field: 'project_id' })
  const found = await documentOf(read, id)
  const isForeign = found && found.spot.scope !== SYSTEM_SCOPE && actor.projects !== 'all' && !actor.projects.has(found.spot.scope)
  if (!found || isForeign) throw new Refusal('NOT_FOUND', `there is nothing called ${id} on the record`)
  return { project_id: found.spot.scope }
}

// --- Pages -----------------------------------------------------------------------------------------------------------------

/** `after`: the position of the last fact of the phase. `seq`: the next number of the stretch. */
type Page = {
  phase: 'facts' | 'receipts' | 'end' | 'done'
  readonly size: number
  readonly plan: Plan
  readonly isComplete: boolean
  after: number
  seq: number
  readonly lines: number
  readonly state: string | null
}
type Kept = {
  readonly p: 'facts' | 'receipts' | 'end'
  readonly n: number
  readonly t: number
  readonly a: number
  readonly s: number
  readonly l: number
  readonly h: string
}

const placeText = ({ phase, size, plan, after, seq }: Page, writer: Writer): string =>
  JSON.stringify({
    p: phase as Kept['p'],
    n: size,
    t: plan.stretch?.to ?? 0,
    a: after,
    s: seq,
    l: writer.lines(),
    h: writer.state(),
  } satisfies Kept)

function placeIn(input: ExportInput): Kept | null {
  const text = placeOf('audit.export', input)
  if (text === undefined) return null
  const damaged = new Refusal('INVALID_REQUEST', 'the cursor is damaged', { field: 'cursor' })
  try {
    const kept = JSON.parse(text) as Kept
    const isWhole = [kept.n, kept.t, kept.a, kept.s, kept.l].every((held) => Number.isSafeInteger(held) && held >= 0)
    if (!isWhole || !['facts', 'receipts', 'end'].includes(kept.p)) throw damaged
    createSha256(kept.h)
    return kept
  } catch {
    throw damaged
  }
}

async function firstPage(read: Read, project_id: string, input: ExportInput): Promise<Page> {
  const stretch = input.id === undefined ? await stretchOf(read, project_id, input) : null
  const plan = await planOf(read, input, stretch)
  const last = stretch === null ? null : await factAt(read, { scope: stretch.scope, seq: stretch.to })
  const position = Math.max(last?.position ?? 0, plan.single.at(-1)?.position ?? 0)
  const { size } = await read.log().covering(position)
  const from = stretch?.from ?? 1
  return { phase: 'facts', size, plan, isComplete: stretch !== null && from === 1, after: 0, seq: from, lines: 0, state: null }
}

async function laterPage(read: Read, project_id: string, input: ExportInput, kept: Kept): Promise<Page> {
  const stretch = input.id === undefined ? { scope: project_id, from: 1, to: kept.t } : null
  const plan = await planOf(read, input, stretch)
  // Facts that came since the first page are not below its checkpoint.
  const single = plan.single.filter(({ position }) => position <= kept.n)
  return {
    phase: kept.p,
    size: kept.n,
    plan: { stretch, single },
    isComplete: false,
    after: kept.a,
    seq: kept.s,
    lines: kept.l,
    state: kept.h,
  }
}

async function stretchOf(read: Read, scope: string, { from, to }: ExportInput): Promise<NonNullable<Plan['stretch']>> {
  const head = await read.head(scope)
  const first = from === undefined ? 1 : await read.seek(scope, timeIn('from', from, 0))
  const last = to === undefined ? head.seq : Math.min(head.seq, (await read.seek(scope, timeIn('to', to, 1))) - 1)
  if (first > last)
    throw new Refusal('INVALID_REQUEST', `the record of ${scope} has no facts then`, { field: from === undefined ? 'to' : 'from' })
  return { scope, from: first, to: last }
}

function timeIn(field: string, text: string, addMs: number): string {
  const ms = parseTimestamp(text)
  if (ms === null) throw new Refusal('INVALID_REQUEST', `${field} must be an RFC 3339 time`, { field })
  return timestampOf(ms + addMs)
}

async function planOf(read: Read, { id }: ExportInput, stretch: Plan['stretch']): Promise<Plan> {
  const keys = await keyFacts(read)
  if (id === undefined) {
    const isOwn = ({ scope, seq }: Spot): boolean => stretch !== null && scope === stretch.scope && seq >= stretch.from && seq <= stretch.to
    return { stretch, single: inOrder(keys.filter((spot) => !isOwn(spot))) }
  }
  const { doc, kind } = (await documentOf(read, id))!
  const history = await historyOf(read, doc, id)
  const ofTask = kind === 'task' ? await factsOfTask(read, id) : []
  return { stretch: null, single: inOrder([...history, ...ofTask, ...keys]) }
}

// --- Lines -----------------------------------------------------------------------------------------------------------------

type Writer = {
  write(line: string): void
  isFull(): boolean
  lines(): number
  text(): string
  state(): string
  digest(): string
}

function writerFor({ lines: before, state }: Page): Writer {
  const sha256: RunningSha256 = createSha256(state ?? undefined)
  const utf8 = new TextEncoder()
  const lines: string[] = []
  let chars = 0
  return {
    write(line) {
      sha256.update(utf8.encode(line))
      lines.push(line)
      chars += line.length
    },
    isFull: () => chars >= limits.pageBytesMax,
    lines: () => before + lines.length,
    text: () => lines.join(''),
    state: sha256.state,
    digest: () => sha256HexOf(sha256),
  }
}

async function writeFacts(read: Read, page: Page, writer: Writer): Promise<void> {
  for await (const { fact, isLast } of factsIn(read, page.plan, page.after, page.seq)) {
    const proof = isLast ? await read.log().inclusion(fact.position - 1, page.size) : null
    writer.write(factLine(fact, proof))
    advance(page, fact)
    if (writer.isFull()) return
  }
  Object.assign(page, { phase: 'receipts', after: 0, seq: page.plan.stretch?.from ?? 1 })
}

function advance(page: Page, { scope, seq, position }: Spot): void {
  page.after = position
  if (page.plan.stretch?.scope === scope && seq >= page.seq) page.seq = seq + 1
}

async function writeReceipts(read: Read, { notary }: Context, page: Page, writer: Writer): Promise<void> {
  if (writer.isFull()) return
  for await (const { fact } of factsIn(read, page.plan, page.after, page.seq)) {
    const id = await endedRequest(read, fact)
    const signed = id === null ? null : await read.ports.requests.receipt(read, id, notary)
    if (signed) writer.write(bundleLine(signed))
    advance(page, fact)
    if (writer.isFull()) return
  }
  page.phase = 'end'
}

async function writeEnd(read: Read, page: Page, writer: Writer): Promise<void> {
  const { note }: SignedHead = await read.log().at(page.size)
  const last: LastLine = { checkpoint: note, lines: writer.lines(), sha256: writer.digest() }
  writer.write(bundleLine(last))
  page.phase = 'done'
}

// --- One fact --------------------------------------------------------------------------------------------------------------

const proof = query({
  name: 'audit.proof',
  summary: 'Prove that one fact is in the log, also as text of C2SP tlog-proof, which other tools verify.',
  draft: 'ours: HACP 0.1.0, Audit ("MUST NEVER be deleted or modified") made checkable by others',
  input: t.Object({
    project_id: t.Optional(Id),
    seq: t.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'the number of the fact in its project' }),
  }),
  output: t.Object({
    origin: t.String(),
    index: t.Integer({ description: 'the place of the fact in the log, from 0' }),
    size: t.Integer({ description: 'the facts in the log under the checkpoint' }),
    line: t.String({ description: 'the sealed line of the fact' }),
    hash: t.String({ description: 'SHA-256 over the line, in base64url: these 32 bytes are the entry of the log' }),
    proof: t.Array(t.String(), { description: 'hashes in base64, from the leaf up (RFC 6962)' }),
    checkpoint: t.String({ description: 'the signed note of the log, with the cosignatures that it has so far' }),
    text: t.String({ description: 'all of it as c2sp.org/tlog-proof@v1' }),
  }),
  callers: [system, administrator, recordKeeper],
  async load(read, { project_id = 'project_default', seq }, { actor }) {
    refuseForeignProject(project_id, actor)
    return { project_id, fact: await factAt(read, { scope: project_id, seq }) }
  },
  async view({ project_id, fact }, { seq }, _, read) {
    if (fact === null) throw new Refusal('NOT_FOUND', `the record of ${project_id} has no number ${seq}`)
    const log = read.log()
    const { size, note } = await log.covering(fact.position)
    const index = fact.position - 1
    const hashes = (await log.inclusion(index, size)).map(base64Of)
    const text = `c2sp.org/tlog-proof@v1\nindex ${index}\n${hashes.map((hash) => `${hash}\n`).join('')}\n${note}`
    return { origin: log.origin, index, size, line: fact.line, hash: fact.hash, proof: hashes, checkpoint: note, text }
  },
  example: { given: 'completed', as: 'admin', input: { seq: 1 } },
})

export const auditExportOperations = [exported, proof]
