// Callbacks: an agent's webhook that gets the signed receipt when its request has ended.
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { fact, image, put } from '#kernel/declare/facts.ts'
import { administrator, heldBy, installationOwner, role } from '#kernel/declare/access.ts'
import { hookSecretOf, isHookAddress } from '#kernel/declare/webhook-address.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { Callback, Hook, HookAddress, Label, newHook } from '../notices/notice.ts'
import { Id } from '../schema.ts'

const agent = heldBy(
  'an agent',
  role<unknown>('agent', (actor) => actor.kind === 'agent'),
)
type OfCallback = { readonly callback: Callback }
const itsAgent = role<OfCallback>('the agent itself', (actor, { callback }) => actor.id === callback.agent_id)
async function callbackOf(read: Read, callback_id: string): Promise<OfCallback> {
  const callback = await read(Callback, callback_id)
  if (callback.removed_at !== null) throw new Refusal('NOT_FOUND', `there is no callback ${callback_id}`)
  return { callback }
}
const Shown = t.Object({ callback: Callback.schema })
const Secret = nullable(t.String({ description: 'shown once' }))

const register = command({
  name: 'callback.register',
  summary: 'Have receipts posted to an address, signed. A request names the callback; the secret is shown once.',
  draft: 'ours: HXP 0.1 knows polling and WebSocket only',
  input: t.Object({ endpoint: HookAddress, label: t.Optional(Label) }),
  output: t.Object({ callback: Callback.schema, secret: Secret }),
  callers: [agent],
  requires: [
    rule<unknown, { readonly endpoint: string }>(
      'INVALID_REQUEST',
      'endpoint is an http or https address without a name, a password or a fragment',
      (_, { endpoint }, { terms }) => isHookAddress(endpoint, terms.publicHooksOnly),
      'endpoint cannot be called: give an https address of the public Internet (or http and others, where the operator allows it with --webhook-private), without a name, a password or a fragment',
    ),
  ],
  audit: 'callback.registered',
  once: ['secret'],
  hides: true,
  load: () => Promise.resolve({}),
  decide(_, { endpoint, label = '' }, { actor, now, newId, secret }) {
    const callback: Callback = { id: newId('cb'), agent_id: actor.id, label, disabled: false, created_at: now, removed_at: null }
    const hook = newHook(callback.id, endpoint, secret())
    const words = `an agent has at most ${limits.hooksPerSubjectMax} callbacks`
    return {
      facts: [fact('callback.registered', [image(Callback, callback)])],
      puts: [put(Hook, hook.id, hook)],
      atMost: [{ doc: Callback, index: 'agent', prefix: [actor.id], max: limits.hooksPerSubjectMax, words }],
      output: { callback, secret: hook.secret },
    }
  },
  example: { given: 'empty', as: 'devin', input: { endpoint: 'https://example.com/receipts', label: 'production' } },
})

const list = query({
  name: 'callback.list',
  summary: 'List the callbacks of an agent: where its receipts are posted.',
  draft: 'ours: HXP 0.1 knows polling and WebSocket only',
  input: t.Object({ agent_id: t.Optional(Id) }),
  output: t.Object({ items: t.Array(Callback.schema) }),
  callers: [
    role<{ whose: string }>('the agent itself', (actor, { whose }) => actor.kind === 'agent' && actor.id === whose),
    administrator,
    installationOwner,
  ],
  async load(read, { agent_id }, { actor }) {
    const whose = agent_id ?? actor.id
    const listed = await read.list(Callback, 'agent', [[whose]], { limit: limits.hooksPerSubjectMax })
    const found = await Promise.all(listed.map(({ id }) => read.maybe(Callback, id)))
    return { whose, items: found.filter((callback) => callback !== null) }
  },
  view: ({ items }) => ({ items }),
  example: { given: 'called_back', as: 'devin', input: {} },
})

const remove = command({
  name: 'callback.remove',
  summary: 'Remove a callback. Posts that are under way are dropped.',
  draft: 'ours: HXP 0.1 knows polling and WebSocket only',
  input: t.Object({ callback_id: Id }),
  output: Shown,
  callers: [itsAgent, administrator, installationOwner],
  requires: [],
  audit: 'callback.removed',
  load: (read, { callback_id }) => callbackOf(read, callback_id),
  decide({ callback }, _, { now }) {
    const next: Callback = { ...callback, removed_at: now }
    return { facts: [fact('callback.removed', [image(Callback, next)])], puts: [put(Hook, callback.id, null)], output: { callback: next } }
  },
  example: { given: 'called_back', as: 'devin', input: ({ callback }) => ({ callback_id: callback.id }) },
})

const rotate = command({
  name: 'callback.rotate',
  summary: 'Make a new secret for a callback. It is shown once; for a day posts carry a signature by the old one as well.',
  draft: 'ours: HXP 0.1 knows polling and WebSocket only',
  input: t.Object({ callback_id: Id }),
  output: t.Object({ callback: Callback.schema, secret: Secret }),
  callers: [itsAgent],
  requires: [],
  audit: 'callback.secret_rotated',
  once: ['secret'],
  async load(read, { callback_id }) {
    return { ...(await callbackOf(read, callback_id)), hook: await read.raw(Hook, callback_id) }
  },
  decide({ callback, hook: held }, _, { now, secret }) {
    const hook = held!
    const before_until = timestampOf(Date.parse(now) + limits.webhookSecretMs)
    const next: Hook = { ...hook, secret: hookSecretOf(secret()), before: hook.secret, before_until }
    const back: Callback = { ...callback, disabled: false }
    return {
      facts: [fact('callback.secret_rotated', [image(Callback, back)])],
      puts: [put(Hook, hook.id, next)],
      output: { callback: back, secret: next.secret },
    }
  },
  example: { given: 'called_back', as: 'devin', input: ({ callback }) => ({ callback_id: callback.id }) },
})

export const callbackOperations = [register, list, remove, rotate]
