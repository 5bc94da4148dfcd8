// Secrets are handed over once, to the agent that asked, and erased with that or when their time is over.
import { image, put } from '#kernel/declare/facts.ts'
import { forAgentsToo, role, system } from '#kernel/declare/access.ts'
import { command, rule, type Read } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { requestOf, type OfRequest } from '../access.ts'
import { Id, Request } from '../schema.ts'
import { secretExpiry, Secret, SecretEnd, secretIn, SealedTo } from '../answering/secret.ts'

type Taking = OfRequest & { readonly secret: Secret | null; readonly opened: { value: unknown; salt: string } | null }

/** A key of the project takes only secrets that were asked with it. Other secrets belong to the agent. */
const taker = forAgentsToo(
  role<OfRequest>(
    'the agent that asked',
    (actor, { request }) => (actor.kind === 'agent' && actor.id === request.requester) || actor.id === request.asked_with,
  ),
)

async function secretOf(read: Read, request: Request): Promise<Secret | null> {
  const reference = secretIn(request)
  return reference === null ? null : read.raw(Secret, reference.secret_id)
}

const endOf = ({ id, request_id, project_id, to }: Secret, state: SecretEnd['state'], at: string): SecretEnd => ({
  id,
  request_id,
  project_id,
  sealed_to: to,
  state,
  at,
})

const take = command({
  name: 'secret.take',
  summary: 'Fetch a secret that a person gave as the answer. It is handed over once, to the agent that asked, and erased.',
  draft: 'ours: HXP 0.1 has no answers that are secret',
  input: t.Object({ request_id: Id }),
  output: t.Object({
    request_id: Id,
    secret_id: Id,
    sealed_to: SealedTo,
    value: t.Unknown({ description: 'the answer; null if it is sealed to a key of the agent' }),
    salt: nullable(t.String({ description: 'the commitment in the receipt is the SHA-256 of the salt and the answer' })),
    sealed: nullable(t.String({ description: 'a compact JWE that holds value and salt, for the key of the agent' })),
  }),
  callers: [taker],
  requires: [
    rule<Taking>(
      'PRECONDITION_FAILED',
      'the request was answered with a secret',
      ({ request }) => secretIn(request) !== null,
      'the request was not answered with a secret',
    ),
    rule<Taking>(
      'GONE',
      'the secret was not delivered yet and has not expired',
      ({ secret }, _, { now }) => secret !== null && now < secretExpiry(secret),
      'the secret was already delivered, or it has expired',
    ),
  ],
  audit: 'secret.taken',
  once: ['value', 'salt', 'sealed'],
  async load(read, { request_id }, { actor, notary }): Promise<Taking> {
    const state = await requestOf(read, request_id)
    const secret = await secretOf(read, state.request)
    const isOpened = secret?.to === 'server' && taker.is(actor, state)
    return { ...state, secret, opened: isOpened ? (JSON.parse(await notary.open(secret.sealed)) as Taking['opened']) : null }
  },
  decide({ request, secret: held, opened }, _, { now }) {
    const secret = held!
    return {
      facts: [fact('secret.taken', [image(SecretEnd, endOf(secret, 'taken', now))])],
      puts: [put(Secret, secret.id, null)],
      output: {
        request_id: request.id,
        secret_id: secret.id,
        sealed_to: secret.to,
        value: opened?.value ?? null,
        salt: opened?.salt ?? null,
        sealed: opened === null ? secret.sealed : null,
      },
    }
  },
  example: { given: 'given_secret', as: 'devin', input: ({ request }) => ({ request_id: request.id }) },
})

const expire = command({
  name: 'secret.expire',
  summary: 'Erase a secret that was not fetched in time. The system calls it.',
  draft: 'ours: a secret is kept as short as can be',
  input: t.Object({ request_id: Id }),
  output: t.Object({ expired: t.Boolean() }),
  callers: [system],
  requires: [
    rule<{ secret: Secret | null }>(
      'PRECONDITION_FAILED',
      'the secret still exists and has expired',
      ({ secret }, _, { now }) => secret !== null && secretExpiry(secret) <= now,
      'the secret was erased already, or its time is not over yet',
    ),
  ],
  audit: 'secret.expired',
  load: async (read, { request_id }) => ({ secret: await secretOf(read, await read(Request, request_id)) }),
  decide: ({ secret }, _, { now }) => ({
    facts: [fact('secret.expired', [image(SecretEnd, endOf(secret!, 'expired', now))])],
    puts: [put(Secret, secret!.id, null)],
    output: { expired: true },
  }),
  example: { given: 'secret_forgotten', as: 'system', input: ({ request }) => ({ request_id: request.id }) },
})

export const secretOperations = [take, expire]
