// The recorded names of this installation's keys, so that a replaced key file is detected even if it is valid.
import { image } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { command } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { KeyNames } from '../schema.ts'

const { server, signing } = KeyNames.schema.properties

const record = command({
  name: 'keys.record',
  summary: 'Record which keys this installation signs and seals with, by their names.',
  draft: 'ours: receipts and keys',
  input: t.Object({ server, signing }),
  output: t.Object({ keys: KeyNames.schema }),
  callers: [system],
  requires: [],
  audit: 'keys.recorded',
  load: async (read) => ({ before: await read.raw(KeyNames, 'keys') }),
  decide({ before }, input, { now }) {
    const keys: KeyNames = { id: 'keys', ...input, at: now }
    const isSame = before !== null && before.server === keys.server && before.signing.join() === keys.signing.join()
    return isSame ? { facts: [], output: { keys: before } } : { facts: [fact('keys.recorded', [image(KeyNames, keys)])], output: { keys } }
  },
  example: {
    given: 'empty',
    as: 'system',
    input: { server: 'nEm7xXbWqv1cFz0kBt3u9A', signing: ['kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k'] },
  },
})

export const keysOperations = [record]
