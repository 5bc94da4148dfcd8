// The public key that secret answers to an agent are sealed to. Only the agent has the private key.
import { image } from '#kernel/declare/facts.ts'
import { forAgentsToo, role } from '#kernel/declare/access.ts'
import { command, rule } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { withAdded } from '#kernel/declare/unknown-fields.ts'
import { fact } from '../events.ts'
import { administrators, keeper, type Subject } from '../access.ts'
import { Agent, AgentId, SealKey } from '../schema.ts'

const itself = forAgentsToo(
  role<{ readonly subject: Subject }>(
    'the agent itself',
    (actor, { subject }) => actor.kind === 'agent' && actor.id === subject.id && actor.narrowed !== true,
  ),
)

/** Points of small order (RFC 7748, 6.1): anyone can decrypt a message that is sealed to one of them. */
const weak = new Set(
  [
    '0000000000000000000000000000000000000000000000000000000000000000',
    '0100000000000000000000000000000000000000000000000000000000000000',
    'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
    '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
    'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  ].map((hex) => Buffer.from(hex, 'hex').toString('base64url')),
)

/** X25519 ignores the highest bit. */
function pointOf(x: string): string {
  const bytes = Buffer.from(x, 'base64url')
  bytes[31]! &= 0x7f
  return bytes.toString('base64url')
}

type Asked = { readonly jwk: (SealKey & { readonly d?: unknown }) | null }

export const sealKey = command({
  name: 'agent.seal_key',
  summary: 'Set the public key (X25519) that secret answers to an agent are sealed to, or take it away.',
  draft: 'ours: HXP 0.1 sends every answer in the open',
  input: t.Object({
    agent_id: AgentId,
    jwk: nullable(
      // Key generators add members (RFC 7517) that are accepted and not stored.
      withAdded(
        t.Object({ ...SealKey.properties, d: t.Optional(t.Unknown({ description: 'refused: the private half never leaves the agent' })) }),
        'use',
        'alg',
        'key_ops',
        'ext',
      ),
    ),
  }),
  output: t.Object({ agent: Agent.schema }),
  callers: [...administrators, keeper, itself],
  requires: [
    rule<unknown, Asked>(
      'INVALID_REQUEST',
      'd is the private half of the key: keep it, make another pair, and send the public half of that',
      (_, { jwk }) => jwk?.d === undefined,
      'd is the private half of the key: keep it, make another pair, and send the public half of that',
    ),
    rule<unknown, Asked>(
      'INVALID_REQUEST',
      'this is a point of small order: nothing that is sealed to it is secret',
      (_, { jwk }) => jwk === null || !weak.has(pointOf(jwk.x)),
      'this is a point of small order: nothing that is sealed to it is secret; make another pair',
    ),
  ],
  audit: 'agent.seal_key_set',
  async load(read, { agent_id }) {
    const agent = await read(Agent, agent_id)
    return { agent, subject: agent }
  },
  decide({ agent }, { jwk }) {
    const next: Agent = { ...agent, seal_key: jwk && publicPartOf(jwk) }
    return { facts: [fact('agent.seal_key_set', [image(Agent, next)])], output: { agent: next } }
  },
  example: {
    given: 'empty',
    as: 'devin',
    input: { agent_id: 'agent_devin', jwk: { kty: 'OKP', crv: 'X25519', x: 'hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo' } },
  },
})

const publicPartOf = ({ kty, crv, x, kid }: SealKey): SealKey => ({ kty, crv, x, ...(kid === undefined ? {} : { kid }) })
