// Scenes that the examples and the derived tests of this protocol start from. The cast is the one of collaboration: alice answers
// for devin, an agent of project_default.
import type { Step } from '#kernel/operation.ts'

/** Devin asks alice to decide. */
const asked: Step[] = [
  {
    as: 'devin',
    call: 'execution/request.create',
    input: {
      action: 'DECIDE',
      timeout_seconds: 3_600,
      payload: { question: 'Approve the $99/mo plan?', options: ['Approve', 'Deny'], context: 'Needed for payments.' },
    },
  },
]
const forgotten: Step[] = [...asked, { advanceMs: 2 * 3_600_000 }]

/** Devin asks alice for a file, and she sends one. */
const asked_for_file: Step[] = [
  {
    as: 'devin',
    call: 'execution/request.create',
    input: { action: 'PROVIDE', payload: { prompt: 'The signed contract, please', input_type: 'file' } },
  },
]
const sent_file: Step[] = [
  ...asked_for_file,
  {
    as: 'alice',
    call: 'execution/file.add',
    input: ({ request }) => ({
      request_id: request.id,
      name: 'contract.txt',
      checksum: 'sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824',
      size: 5,
    }),
  },
]
const given_file: Step[] = [
  ...sent_file,
  {
    as: 'alice',
    call: 'execution/request.resolve',
    input: ({ request, artifact_id }) => ({ request_id: request.id, result: { artifact_id } }),
  },
]
const file_forgotten: Step[] = [...sent_file, { advanceMs: 25 * 3_600_000 }]

/** Devin asks alice for a secret, and she gives it. */
const given_secret: Step[] = [
  {
    as: 'devin',
    call: 'execution/request.create',
    input: { action: 'PROVIDE', payload: { prompt: 'The deploy token, please', input_type: 'text', sensitive: true } },
  },
  {
    as: 'alice',
    call: 'execution/request.resolve',
    input: ({ request }) => ({ request_id: request.id, result: 'correct horse battery staple' }),
  },
]
const secret_forgotten: Step[] = [...given_secret, { advanceMs: 3_600_000 }]

/** Alice has a channel; what devin asks stands in her inbox. */
const told: Step[] = [
  { as: 'alice', call: 'execution/channel.add', input: { endpoint: 'https://example.com/inbox-hook', label: 'phone' } },
  ...asked,
]
const tried: Step[] = [...told, { as: 'alice', call: 'execution/channel.test', input: ({ channel }) => ({ channel_id: channel.id }) }]
const called_back: Step[] = [{ as: 'devin', call: 'execution/callback.register', input: { endpoint: 'https://example.com/receipts' } }]

export const scenes = {
  empty: [],
  asked,
  forgotten,
  asked_for_file,
  given_file,
  file_forgotten,
  given_secret,
  secret_forgotten,
  told,
  tried,
  called_back,
}
