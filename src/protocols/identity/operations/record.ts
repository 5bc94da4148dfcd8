// A restored backup, on the record: the operator accepted that the record ends earlier than a server had seen.
import { image } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { command } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { AcceptedRecord } from '../schema.ts'

const { seen, restored } = AcceptedRecord.schema.properties

const accept = command({
  name: 'record.accept',
  summary: 'Record that a backup was restored on purpose, although a server had seen a later state.',
  draft: 'ours: the record',
  input: t.Object({ seen, restored }),
  output: t.Object({ record: AcceptedRecord.schema }),
  callers: [system],
  requires: [],
  audit: 'record.accepted',
  load: async (read) => ({ before: await read.raw(AcceptedRecord, 'record') }),
  decide(_, input, { now }) {
    const record: AcceptedRecord = { id: 'record', ...input, at: now }
    return { facts: [fact('record.accepted', [image(AcceptedRecord, record)])], output: { record } }
  },
  example: { given: 'empty', as: 'system', input: { seen: 1_204, restored: 1_100 } },
})

export const recordOperations = [accept]
