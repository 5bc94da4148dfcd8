// The agent card, which other systems read before they send work. It is public, so an agent has one here only if its owner publishes it.
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Card } from '#protocols/delegation/schema.ts'
import { INPUT_MODES, OUTPUT_MODES } from './parts.ts'

/** A signature over the canonical text of a card, in the form of its `signatures`. */
export type SignCard = (text: string) => { readonly protected: string; readonly signature: string }

export const PROTOCOL_VERSION = '1.0'

/** No field has its default value: verifiers drop such fields before they check the signature (8.4.1). */
export function agentCardOf(card: Card, origin: string, version: string, sign: SignCard): object {
  const url = `${origin}/a2a/${card.agent_id}`
  const tags = card.tags.length > 0 ? card.tags : ['agent']
  const skill = { id: card.agent_id, name: card.name, description: card.description || card.name, tags }
  const unsigned = {
    name: card.name,
    description: card.description || card.name,
    version,
    supportedInterfaces: ['JSONRPC', 'HTTP+JSON'].map((protocolBinding) => ({ url, protocolBinding, protocolVersion: PROTOCOL_VERSION })),
    capabilities: { streaming: true, pushNotifications: true },
    defaultInputModes: INPUT_MODES,
    defaultOutputModes: OUTPUT_MODES,
    skills: [
      skill,
      ...card.capabilities.map(({ capability_id, version: serves }) => ({
        id: capability_id,
        name: capability_id,
        description: `${capability_id} ${serves}`,
        tags,
      })),
    ],
    securitySchemes: { key: { httpAuthSecurityScheme: { scheme: 'Bearer', description: 'a key of a person or of an agent here' } } },
    securityRequirements: [{ schemes: { key: {} } }],
  }
  return { ...unsigned, signatures: [sign(canonical(unsigned))] }
}
