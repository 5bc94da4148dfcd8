// Actions are a table: code asks an action for its traits and does not compare its name. The files below name one; the list may only shrink.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { actionNames } from '#protocols/execution/actions/index.ts'

const root = join(import.meta.dirname, '../../../../src')
const LITERAL = new RegExp(`['"](${actionNames.join('|')})['"]|\\b(${actionNames.join('|')}): [\\w{]`)
/** Each with the reason why it names an action. */
const NAMED: readonly string[] = [
  'apps/cli/ask/approve.ts', // asks it
  'apps/cli/ask/decide.ts',
  'apps/cli/ask/provide.ts',
  'apps/cli/ask/verify.ts',
  'contracts/gate-execution.ts', // asks people to approve the call of an agent
  'contracts/harness-execution.ts', // asks people to approve the task of another harness
  'contracts/inbox-messages.ts', // puts a checkpoint into the action that fits it
  'protocols/execution/answering/shown-request.ts', // the typed card of each
  'protocols/execution/examples.ts',
  'protocols/execution/operations/mirror.ts', // an example
  'protocols/execution/operations/request.ts',
  'protocols/execution/operations/rules.ts',
  'protocols/execution/schema.ts', // questions of other protocols
  'protocols/hardware/daemon/approval.ts', // asks people to approve a task of hardware
  'sdk/questions.ts', // the methods that ask
  'web/decide/kinds/index.tsx', // the components
  'web/decide/kinds/words.ts',
]

test('no other file names an action', () => {
  const found = globSync('**/*.{ts,tsx}', { cwd: root }).filter(
    (file) => !file.startsWith('protocols/execution/actions/') && LITERAL.test(readFileSync(join(root, file), 'utf8')),
  )
  assert.deepEqual(found.toSorted(), NAMED.toSorted(), 'give the action a trait in src/protocols/execution/actions and read that')
})
