// Files that the operator names at a start: each kind is refused above the same bound, with its path.
import { throws } from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { readAgents } from '#apps/server/settings/agents-file.ts'
import { readOperatorFile } from '#apps/server/settings/capability-file.ts'
import { readPolicy } from '#apps/server/settings/policy-file.ts'
import { temporary } from '../../../support/as-processes/cli.ts'

const folder = temporary('operator-file')
after(() => rmSync(folder, { recursive: true, force: true }))

test('a file of more than a mebibyte is refused with its path and the bound, whatever it is for', () => {
  const path = join(folder, 'large.json')
  writeFileSync(path, `{}${' '.repeat(1024 * 1024)}`)
  const tooLarge = /large\.json: the file .*cannot be read: it has 1048578 bytes, and at most 1048576 are read/
  throws(() => readAgents(path, {}), tooLarge)
  throws(() => readPolicy(path), tooLarge)
  throws(() => readOperatorFile(path, () => null), tooLarge)
})
