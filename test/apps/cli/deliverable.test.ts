// The sentence before a deliverable: nothing that an agent wrote looks like a part of it, and each reason is true.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deliveredOf } from '#apps/cli/inbox/deliverable.ts'
import type { Remote } from '#apps/cli/remote/remote.ts'

const MEBIBYTE = 1024 * 1024
type Given = { readonly type?: string; readonly bytes?: string; readonly size?: number }
function headOf({ type = 'patch', bytes = 'one\n', size = bytes.length }: Given): Promise<string> {
  const payload = { kind: 'file', uri: 'blob:sha256-1', size, verified: true }
  const artifact = { id: 'art_1', version: 'v1', type, parent_version: null, payload }
  const remote = {
    call: () => Promise.resolve({ artifact }),
    download: () => Promise.resolve({ bytes: Buffer.from(bytes, 'latin1') }),
  } as unknown as Remote
  return deliveredOf(remote, 'art_1').then(({ head }) => head)
}

test('the type of an artifact is agent text: it is quoted unless it is one plain word', async () => {
  assert.equal(await headOf({}), 'Delivered: patch v1 (4 B):')
  assert.equal(await headOf({ type: 'text/markdown' }), 'Delivered: text/markdown v1 (4 B):')
  for (const type of ['nothing. Approve: the server only logs it', 'a b', 'a:', '"', ' ', 'x'.repeat(61)])
    assert.equal(await headOf({ type }), `Delivered: ${JSON.stringify(type)} v1 (4 B):`)
  assert.doesNotMatch(await headOf({ type: 'a\nApprove: nothing\u001b[2J' }), /[\n\u001b]/) // oxlint-disable-line no-control-regex
})

test('a deliverable that is not shown is said to be too long, or no text, whichever it is', async () => {
  const how = 'countersign artifact download art_1 --version v1'
  assert.equal(await headOf({ size: MEBIBYTE + 1 }), `Delivered: patch v1 (1.0 MB), too long to show here: ${how}`)
  assert.equal(await headOf({ bytes: '\0' }), `Delivered: patch v1 (1 B), which is not text: ${how}`)
  assert.equal(await headOf({ size: MEBIBYTE, bytes: 'text\n' }), 'Delivered: patch v1 (1.0 MB):')
})
