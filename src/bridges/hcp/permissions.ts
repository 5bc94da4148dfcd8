// Rights at the broker, as an operator gives them: users, permissions, topic permissions and the policy of event queues (C25, C28). Locked,
// by default: harnesses declare, bind and delete nothing; the operator's command creates exchanges, queues and bindings.
import { EVENTS, isHarnessId } from '#protocols/harness/envelope.ts'
import { topologyOf, type QueueKind } from './topology.ts'

export type PermissionOptions = {
  readonly vhost: string
  readonly ids: readonly string[]
  readonly locked: boolean
  readonly queues: QueueKind
  /** Bytes that an event queue holds before it rejects new messages and publishers keep them. */
  readonly eventBytesMax: number
}

/** A call of rabbitmqctl. `definitions`: its last word is a file with these. */
export type Statement = { readonly words: readonly string[]; readonly definitions?: object; readonly user?: string }

type Rights = { readonly configure: string; readonly write: string; readonly read: string }
const EXCHANGES = 'hcp\\.(commands|events|dead)'
const queuesOf = (id: string): string => `hcp\\.(cmd|evt|dead)\\.${id}`

/** The rights as patterns. Ids need no escapes: their only special character is the dash, which is literal here. */
export function rightsOf(id: string, locked: boolean): Rights {
  if (!isHarnessId(id)) throw new TypeError(`${JSON.stringify(id)} is not a harness id: small letters, digits and dashes, at most 63`)
  if (locked) return { configure: '^$', write: `^${EXCHANGES}$`, read: `^${queuesOf(id)}$` }
  const all = `^(${EXCHANGES}|${queuesOf(id)})$`
  return { configure: all, write: all, read: all }
}

/** Exchanges and queues that the operator declares if harnesses cannot. */
function topologyFor({ ids, vhost, queues }: PermissionOptions): object {
  const all = ids.map(topologyOf)
  const exchanges = all[0]!.exchanges.map(({ exchange: name, type }) => ({
    name,
    vhost,
    type,
    durable: true,
    auto_delete: false,
    internal: false,
    arguments: {},
  }))
  return {
    exchanges,
    queues: all.flatMap((part) =>
      part.queues.map((name) => ({
        name,
        vhost,
        durable: true,
        auto_delete: false,
        arguments: queues === 'quorum' ? { 'x-queue-type': 'quorum' } : {},
      })),
    ),
    bindings: all.flatMap((part) =>
      part.bindings.map(({ exchange: source, queue: destination, routingKey: routing_key }) => ({
        source,
        vhost,
        destination,
        destination_type: 'queue',
        routing_key,
        arguments: {},
      })),
    ),
  }
}

/** The statements. Never a TTL or drop-head: messages that do not fit stay in the outbox of their sender. */
export function statementsFor(options: PermissionOptions): Statement[] {
  const { vhost, ids, locked, eventBytesMax } = options
  const policy = { 'max-length-bytes': eventBytesMax, overflow: 'reject-publish' }
  return [
    { words: ['add_vhost', vhost] },
    ...ids.map((id) => ({ words: ['add_user', id], user: id })),
    ...(locked ? [{ words: ['import_definitions'], definitions: topologyFor(options) }] : []),
    ...ids.flatMap((id) => {
      const { configure, write, read } = rightsOf(id, locked)
      return [
        { words: ['set_permissions', '-p', vhost, id, configure, write, read] },
        { words: ['set_topic_permissions', '-p', vhost, id, EVENTS, '.*', `^${id}\\.#$`] },
      ]
    }),
    { words: ['set_policy', '-p', vhost, 'hcp-events', '^hcp\\.evt\\.', JSON.stringify(policy), '--apply-to', 'queues'] },
  ]
}
