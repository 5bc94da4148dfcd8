// The log of this installation on the record: its name is fixed with the first fact about it, and a rotated key follows the earlier ones.
import { image } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { command } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { LogNames } from '../schema.ts'

const { origin, keys, before } = LogNames.schema.properties

const record = command({
  name: 'log.record',
  summary: 'Record the name of the log and its keys; another name begins another log.',
  draft: 'ours: the log',
  input: t.Object({ origin, keys, before: t.Optional(before) }),
  output: t.Object({ log: LogNames.schema }),
  callers: [system],
  requires: [],
  audit: 'log.recorded',
  load: async (read) => ({ recorded: await read.raw(LogNames, 'log') }),
  decide({ recorded }, input, { now }) {
    const isSame = recorded !== null && recorded.origin === input.origin && recorded.keys.join() === input.keys.join()
    // Several servers can start concurrently: the first one names the log.
    if (recorded !== null && recorded.origin !== input.origin && input.before === undefined)
      throw new Refusal('PRECONDITION_FAILED', `the log is called ${recorded.origin}: its name is fixed with its first fact`)
    if (isSame) return { facts: [], output: { log: recorded } }
    const log: LogNames = { id: 'log', origin: input.origin, keys: input.keys, before: input.before ?? recorded?.before ?? null, at: now }
    const detail = { origin: log.origin, key: log.keys[0]! }
    return { facts: [fact('log.recorded', [image(LogNames, log)], { detail })], output: { log } }
  },
  example: {
    given: 'empty',
    as: 'system',
    input: {
      origin: 'tasks.example.com/log',
      keys: ['tasks.example.com/log+2b0d6ae5+AddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea'],
    },
  },
})

export const logOperations = [record]
