// Contracts are typed by the names of their event and their operation.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { contractsBetween } from '#contracts/contract.ts'
import { contracts } from '#contracts/index.ts'

const to = contractsBetween({ from: 'execution', to: 'collaboration' })

test('a contract is named by its protocols, and the compiler knows its event, operation, subject and input', () => {
  const made = to('x', 'request.completed', 'task.start', ({ subject }) => ({ task_id: subject.task_id! }))
  assert.deepEqual({ ...made, input: null }, { ...names('request.completed', 'task.start'), as: 'system', input: null })
  // @ts-expect-error -- a misspelt event
  to('x', 'request.complete', 'task.start', () => null)
  // @ts-expect-error -- a misspelt operation
  to('x', 'request.completed', 'task.begin', () => null)
  // @ts-expect-error -- a query
  to('x', 'request.completed', 'task.get', () => null)
  // @ts-expect-error -- a field that the subject does not have
  to('x', 'request.completed', 'task.start', ({ subject }) => ({ task_id: subject.executor }))
  // @ts-expect-error -- an input of another operation
  to('x', 'request.completed', 'task.start', () => ({ checkpoint_id: 'one' }))
})
const names = (on: string, call: string) => ({
  name: 'execution-collaboration/x',
  on: `execution/${on}`,
  call: `collaboration/${call}`,
})

test('no two contracts have one name', () => {
  const all = contracts.map(({ name }) => name)
  assert.deepEqual(
    all.filter((name, i) => all.indexOf(name) !== i),
    [],
  )
})

test('contracts assert no types', () => {
  const folder = join(import.meta.dirname, '../../src/contracts')
  // Comments and texts use the word as well; `import * as` and renamed imports are no assertions.
  const assertions = readdirSync(folder).flatMap((file) =>
    readFileSync(join(folder, file), 'utf8')
      .split('\n')
      .filter(
        (line) => !/^\s*(\/\/|\/?\*|import )/.test(line) && /[\w)\]}>] as (const|[\w{[(])/.test(line.replace(/'[^']*'|`[^`]*`/g, '""')),
      )
      .map((line) => `${file}: ${line.trim()}`),
  )
  assert.deepEqual(assertions, [])
})
