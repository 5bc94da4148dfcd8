// Signed notes, checkpoints, cosignatures and policies: the examples of C2SP, and everything that must be refused.
import assert from 'node:assert/strict'
import { createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto'
import { test } from 'node:test'
import { base64Of, bytesOfBase64 } from '#kernel/log/tree/base64.ts'
import { limits } from '#kernel/limits.ts'
import { sha256Bytes } from '#kernel/log/hash-chain.ts'
import { answerLater, answerNow } from '#kernel/log/tree/asking.ts'
import {
  checkpointIn,
  checkpointText,
  cosign,
  openCheckpoint,
  signaturesOf,
  signCheckpoint,
  type Claim,
  type OpenCheckpoint,
} from '#kernel/log/tree/checkpoint.ts'
import {
  COSIGNATURE_KEY,
  LOG_KEY,
  noteIn,
  signatureLine,
  Unreadable,
  verifierKey,
  verifierKeyIn,
  type KeyType,
  type VerifierKey,
} from '#kernel/log/tree/note.ts'
import { policyIn, type Policy } from '#kernel/log/tree/policy.ts'

const isValid = ({ key, message, signature }: Claim): boolean => {
  const x = Buffer.from(key).toString('base64url')
  return verify(null, message, createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' }), signature)
}
const keyIn = (text: string): VerifierKey => answerNow(verifierKeyIn(text), sha256Bytes)
const policyOf = (text: string): Policy => answerNow(policyIn(text), sha256Bytes)
const open = (note: string, keys: readonly VerifierKey[]): OpenCheckpoint => answerNow(openCheckpoint(note, keys), isValid)

function signer(name: string, type: KeyType) {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const raw = new Uint8Array(Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url'))
  return { key: answerNow(verifierKey(name, type, raw), sha256Bytes), sign: (bytes: Uint8Array) => sign(null, bytes, privateKey) }
}

test('the example of signed-note verifies, and no changed one', () => {
  const key = keyIn('example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k')
  assert.deepEqual([key.name, key.type, key.id], ['example.com/foo', LOG_KEY, '530d903a'])
  const text = 'This is an example message.\n'
  const line = '— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n'
  const check = (note: string) => {
    const read = noteIn(note)
    return answerNow(signaturesOf(read.text, read.signatures, [key]), isValid)
  }
  assert.equal(check(`${text}\n${line}`).length, 1)
  assert.throws(() => check(`${text.replace('an', 'no')}\n${line}`), /the signature of example.com\/foo is not one of its key/)
  assert.throws(() => check(`${text}\n${line.replace('Uw2QOkn8', 'Uw2QOkn9')}`), Unreadable)
  assert.equal(check(`${text}\n${line.replace('Uw2Q', 'Vw2Q')}`).length, 0, 'a key of another id is unknown')
  assert.equal(check(`${text}\n${line.replace('/foo', '/bar')}`).length, 0, 'a key of another name is unknown')
})

test('the example of tlog-cosignature is read with its time', () => {
  const text = 'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n'
  const lines =
    '— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n' +
    '— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n'
  const { signatures } = noteIn(`${text}\n${lines}`)
  assert.deepEqual(
    signatures.map(({ name, id }) => [name, id]),
    [
      ['example.com/behind-the-sofa', '033de0ae'],
      ['witness.example.com/w1', '8d66cf3f'],
    ],
  )
  const checkpoint = checkpointIn(text)
  assert.deepEqual([checkpoint.origin, checkpoint.size], ['example.com/behind-the-sofa', 20_852_163])
  assert.equal(checkpointText(checkpoint), text)
  const claims: Claim[] = []
  const key = { name: 'witness.example.com/w1', id: '8d66cf3f', type: COSIGNATURE_KEY, key: new Uint8Array(32), text: '' } as const
  const [signed] = answerNow(signaturesOf(text, signatures, [key]), (claim) => claims.push(claim) > 0)
  assert.equal(signed!.time, 1_679_315_147)
  assert.equal(new TextDecoder().decode(claims[0]!.message), `cosignature/v1\ntime 1679315147\n${text}`)
})

test('a checkpoint carries the signatures of its log and its witnesses, at once or later', async () => {
  const log = signer('lab.example/log', LOG_KEY)
  const witness = signer('w.lab.example', COSIGNATURE_KEY)
  const stranger = signer('w.lab.example', COSIGNATURE_KEY)
  const text = checkpointText({ origin: 'lab.example/log', size: 2 ** 40, root: sha256Bytes(new Uint8Array(0)) })
  const own = signCheckpoint(log.key, text, log.sign)
  const theirs = cosign(witness.key, text, 1_794_000_000, witness.sign)
  const note = `${text}\n${own}${theirs}${cosign(stranger.key, text, 7, stranger.sign)}`
  const keys = [log.key, witness.key]
  const { origin, size, signed } = open(note, keys)
  assert.deepEqual([origin, size], ['lab.example/log', 2 ** 40])
  assert.deepEqual(
    signed.map(({ key, time, line }) => [key.text, time, line]),
    [
      [log.key.text, null, own],
      [witness.key.text, 1_794_000_000, theirs],
    ],
  )
  const later = await answerLater(openCheckpoint(note, keys), (claim) => Promise.resolve(isValid(claim)))
  assert.deepEqual(later.signed, signed)
  const refused = (changed: string): unknown => assert.throws(() => open(changed, keys), Unreadable, changed)
  refused(note.replace('1099511627776', '1099511627777'))
  refused(note.replace(theirs, cosign({ ...witness.key }, text.replace('1099511627776', '1'), 1_794_000_000, witness.sign)))
  refused(note.replace(theirs, signatureLine(witness.key, witness.sign(new TextEncoder().encode(text)))))
  refused(note.replace(own, signatureLine(log.key, new Uint8Array(63))))
})

test('a note, a checkpoint or a key that is not in order is refused with a sentence', () => {
  const { key, sign: signs } = signer('lab.example/log', LOG_KEY)
  const text = checkpointText({ origin: 'lab.example/log', size: 5, root: new Uint8Array(32) })
  const line = signCheckpoint(key, text, signs)
  const refuses = (read: () => unknown, message: RegExp): void =>
    assert.throws(read, (error) => error instanceof Unreadable && message.test(error.message), String(message))
  const notes: readonly (readonly [string, RegExp])[] = [
    ['', /not a signed note/],
    [text, /not a signed note/],
    [`${text}\n`, /not a signed note/],
    [`\n\n${line}`, /not a signed note|cannot be read/],
    [`${text}\n${line.trim()}`, /not a signed note/],
    [`${text}\r\n${line}`, /not a signed note|control/],
    [`${text}\n${line.replace('—', '-')}`, /signature line/],
    [`${text}\n${line.replace('lab', 'la+b')}`, /signature line/],
    [`${text}\n— x AAAA\n`, /signature line/],
    [`${text}\n— x AAAAAAB=\n`, /signature line/],
    [`${text}\u0000\n${line}`, /not a signed note|control/],
    [`a\tb\n\n${line}`, /control characters/],
    [`\ud800\n\n${line}`, /UTF-8/],
    [`${text}\n${line.repeat(limits.logSignaturesMax + 1)}`, /over 64 signature lines/],
    [`${'x'.repeat(limits.logNoteCharsMax)}\n\n${line}`, /over 65536 characters/],
  ]
  for (const [note, message] of notes) refuses(() => open(note, [key]), message)
  const checkpoints: readonly (readonly [string, RegExp])[] = [
    ['a\n5\n', /three lines/],
    ['a\n5\nAAAA\n', /not a hash/],
    [`a\n05\n${base64Of(new Uint8Array(32))}\n`, /not a size/],
    [`a\n-5\n${base64Of(new Uint8Array(32))}\n`, /not a size/],
    [`a\n9999999999999999\n${base64Of(new Uint8Array(32))}\n`, /not a size/],
    [`a b\n5\n${base64Of(new Uint8Array(32))}\n`, /name of a log/],
    [`a\n5\n${base64Of(new Uint8Array(32))}\nmore\n`, /extension lines/],
  ]
  for (const [body, message] of checkpoints) refuses(() => checkpointIn(body), message)
  const parts = key.text.split('+')
  const keys: readonly (readonly [string, RegExp])[] = [
    ['', /not a verifier key/],
    ['<vkey>', /not a verifier key/],
    [key.text.replace(parts[1]!, '00000000'), /has the id/],
    [`x+00000000+${base64Of(new Uint8Array([6, ...key.key]))}`, /type 6/],
    [`x+00000000+${base64Of(new Uint8Array([1, 2]))}`, /1 bytes instead of 32/],
    [`${key.text}=`, /not a verifier key/],
  ]
  for (const [vkey, message] of keys) refuses(() => keyIn(vkey), message)
  assert.equal(bytesOfBase64('AAB='), null, 'bits behind the end')
  assert.deepEqual(bytesOfBase64('AAA='), new Uint8Array(2))
})

test('a policy says whom to trust, and which witnesses are enough', () => {
  const log = signer('lab.example/log', LOG_KEY).key
  const [x1, x2, x3, y1, y2] = ['x1', 'x2', 'x3', 'y1', 'y2'].map((name) => signer(name, COSIGNATURE_KEY).key)
  const text = [
    '# whom we trust',
    `log ${log.text} https://lab.example/log`,
    `witness X1 ${x1!.text}\t https://x1.example`,
    `  witness X2 ${x2!.text}`,
    `witness X3 ${x3!.text}`,
    'group X 2 X1 X2 X3',
    '',
    `witness Y1 ${y1!.text}`,
    `witness Y2 ${y2!.text}`,
    'group Y any Y1 Y2',
    'group both all X Y',
    'quorum both',
  ].join('\n')
  const policy = policyOf(text)
  assert.deepEqual([policy.logs[0]!.key.text, policy.logs[0]!.url], [log.text, 'https://lab.example/log'])
  assert.deepEqual(
    policy.witnesses.map(({ name, url }) => [name, url]),
    [
      ['X1', 'https://x1.example'],
      ['X2', null],
      ['X3', null],
      ['Y1', null],
      ['Y2', null],
    ],
  )
  assert.ok(policy.isMet([x1!, x3!, y2!]))
  assert.ok(!policy.isMet([x1!, x1!, y2!]), 'one witness counts once')
  assert.ok(!policy.isMet([x1!, x2!, x3!]))
  assert.ok(!policy.isMet([]))
  assert.ok(policyOf('quorum none\n').isMet([]))
  assert.ok(policyOf(`witness a ${x1!.text}\nquorum a\n`).isMet([x1!]))
  const refused: readonly (readonly [string, RegExp])[] = [
    ['', /names no quorum/],
    [`log ${log.text}\n`, /names no quorum/],
    [`log ${log.text}\nlog ${log.text}\nquorum none`, /line 2 of the policy: lab.example\/log has the same key/],
    [`witness a ${x1!.text}\nwitness b ${x1!.text}\nquorum a`, /has the same key as x1/],
    [`log ${log.text}\nwitness a ${ownWitness(log).text}\nquorum a`, /a log is not its own witness/],
    [`witness a ${log.text}\nquorum a`, /key of a log, not of a witness/],
    [`log ${x1!.text}\nquorum none`, /key of a witness, not of a log/],
    ['quorum a', /not defined on a line before/],
    ['quorum none\nquorum none', /second quorum/],
    [`group g all a\nwitness a ${x1!.text}\nquorum g`, /a is not defined on a line before/],
    [`witness a ${x1!.text}\ngroup g all a a\nquorum g`, /member of a group already/],
    [`witness a ${x1!.text}\ngroup g all a\ngroup h all a\nquorum h`, /member of a group already/],
    [`witness a ${x1!.text}\ngroup g 2 a\nquorum g`, /not a number from 1 to 1/],
    [`witness a ${x1!.text}\ngroup g 0 a\nquorum g`, /not a number from 1 to 1/],
    [`witness none ${x1!.text}\nquorum none`, /the name none is taken/],
    [`witness a ${x1!.text}\nwitness a ${x2!.text}\nquorum a`, /the name a is taken/],
    ['group g all none\nquorum g', /none is not defined/],
    ['trust me\nquorum none', /begins with log, witness, group or quorum/],
    ['quorum none\r\n', /control characters/],
    [`#${'x'.repeat(limits.logPolicyCharsMax)}\nquorum none`, /over 65536 characters/],
    [`witness a <vkey>\nquorum a`, /line 1 of the policy: "<vkey>" is not a verifier key/],
  ]
  for (const [bad, message] of refused)
    assert.throws(
      () => policyOf(bad),
      (error) => error instanceof Unreadable && message.test(error.message),
      String(message),
    )
})
const ownWitness = (log: VerifierKey): VerifierKey => answerNow(verifierKey('w', COSIGNATURE_KEY, log.key), sha256Bytes)
