// The daemon on a real kernel: the x86 machine of the lab, if its downloads are in the cache already. `npm run lab` fetches them.
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { isCached, missing, runMachine } from '../../scripts/lab.ts'

const reason = missing() ?? (isCached('x86') ? null : 'the lab is not in the cache: `npm run lab` fetches it')

test('the daemon drives the lines, buses and ports of a Linux kernel in QEMU', { skip: reason ?? false }, async (t) => {
  const said: string[] = []
  const { failed, passed, info } = await runMachine('x86', (message) => said.push(message))
  deepEqual(failed, [], said.join('\n'))
  ok(passed >= 17, said.join('\n'))
  t.diagnostic(`${info}: ${passed} checks`)
})
