// Audit: exporting the record as it is sealed, line by line, so that it can be checked without this server.
import { administrator, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, placeOf } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import { chainOf, numberIn, recordKeeper } from '../record/readers.ts'
import { Id } from '../schema.ts'

/** Facts per read. */
const PORTION = 200

/** One line of the export: the sealed line and its hash as they are, and what its digests cover. */
function lineOf({ seq, hash, line, images }: StoredFact): string {
  const kept = images.map(({ key, version, salt, text }) => ({ key, version, salt, text }))
  return `${JSON.stringify({ seq, hash, line, images: kept })}\n`
}

const exported = query({
  name: 'audit.export',
  summary: 'Export the record of a project as NDJSON, a bounded stretch a call; `audit verify --file` checks it without a server.',
  draft: 'ours: HACP 0.1.0, Audit ("MUST NEVER be deleted or modified") made checkable by others',
  input: t.Object({ project_id: t.Optional(Id), cursor: pageInput.cursor }),
  output: t.Object({
    project_id: t.String(),
    ndjson: t.String({ description: 'one line an event: seq, hash, the sealed line, and the images with their salts' }),
    from_seq: t.Integer(),
    to_seq: t.Integer(),
    head: t.Object({ seq: t.Integer(), hash: t.String() }),
    next_cursor: nextCursor,
  }),
  callers: [system, administrator, recordKeeper],
  load: chainOf,
  async view({ project_id, head }, input, _, read) {
    const start = numberIn(placeOf('audit.export', input) ?? '0')
    const lines: string[] = []
    let [seq, chars] = [start, 0]
    while (seq < head.seq && chars < limits.pageBytesMax) {
      const page = await read.facts({ by: 'scope', scope: project_id }, { after: seq, limit: PORTION, asStored: true })
      // The export ends with the head that it names; facts added during the export are left for the next one.
      for (const stored of page.filter((entry) => entry.seq <= head.seq)) {
        const line = lineOf(stored)
        lines.push(line)
        seq = stored.seq
        chars += line.length
        if (chars >= limits.pageBytesMax) break
      }
      if (page.length === 0) break
    }
    const isMore = seq < head.seq && seq > start
    const next_cursor = isMore ? cursorOf('audit.export', input, String(seq)) : null
    return { project_id, ndjson: lines.join(''), from_seq: start + 1, to_seq: seq, head, next_cursor }
  },
  example: { given: 'completed', as: 'admin', input: {} },
})

export const auditExportOperations = [exported]
