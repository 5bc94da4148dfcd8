// The keys of this installation on the record: a replaced key file is detected even if it is valid, and receipts verify by the record alone.
import { image } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { command, type Made } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { KeyNames, ReceiptKey } from '../schema.ts'
import { limits } from '#kernel/limits.ts'

const { server, signing } = KeyNames.schema.properties

const record = command({
  name: 'keys.record',
  summary: 'Record which keys this installation signs and seals with: their names, and the public halves of those that sign receipts.',
  draft: 'ours: receipts and keys',
  input: t.Object({ server, signing, receipt_keys: t.Optional(t.Array(ReceiptKey.schema, { maxItems: limits.signingKeysMax })) }),
  output: t.Object({ keys: KeyNames.schema }),
  callers: [system],
  requires: [],
  audit: 'keys.recorded',
  load: async (read, { receipt_keys = [] }) => ({
    before: await read.raw(KeyNames, 'keys'),
    published: await Promise.all(receipt_keys.map(({ id }) => read.raw(ReceiptKey, id))),
  }),
  decide({ before, published }, { receipt_keys = [], ...names }, { now }) {
    const keys: KeyNames = { id: 'keys', ...names, at: now }
    const isSame = before !== null && before.server === keys.server && before.signing.join() === keys.signing.join()
    const facts = isSame ? [] : [fact('keys.recorded', [image(KeyNames, keys)])]
    for (const [i, key] of receipt_keys.entries()) facts.push(...factsOf(key, published[i]!))
    return { facts, output: { keys: isSame ? before : keys } }
  },
  example: {
    given: 'empty',
    as: 'system',
    input: {
      server: 'nEm7xXbWqv1cFz0kBt3u9A',
      signing: ['kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k'],
      receipt_keys: [
        {
          id: 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
          x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
          from: '2026-01-01T00:00:00.000Z',
          until: null,
        },
      ],
    },
  },
})

/** What a verifier needs is in the line itself, where nothing can be erased. */
function factsOf(key: ReceiptKey, before: ReceiptKey | null): Made[] {
  const { id: kid, x, from, until } = key
  const facts: Made[] = []
  if (before === null) facts.push(fact('receipt_key.published', [image(ReceiptKey, { ...key, until: null })], { detail: { kid, x, from } }))
  if (until !== null && (before?.until ?? null) === null)
    facts.push(fact('receipt_key.retired', [image(ReceiptKey, key)], { detail: { kid, until } }))
  return facts
}

export const keysOperations = [record]
