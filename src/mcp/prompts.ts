// The prompts that a user of an agent chooses: to hand work over, and to ask for approval.
import { ProtocolError, type GetPromptResult, type Prompt } from '@modelcontextprotocol/server'
import { limits } from '#kernel/limits.ts'

type Offered = { readonly prompt: Prompt; text(args: Readonly<Record<string, string>>): string }

const handOver: Offered = {
  prompt: {
    name: 'hand_over',
    title: 'Hand over',
    description: 'Hand work over to another agent, and follow it until it is done.',
    arguments: [
      { name: 'goal', description: 'the work, and how to tell that it is done', required: true },
      { name: 'to', description: 'the id of the agent; without it, one that declares a fitting capability' },
    ],
  },
  text: ({ goal, to }) =>
    [
      `Hand over this work through Countersign: ${goal}`,
      to ? `Delegate it to ${to} with agent_delegate.` : 'Find an agent with agent_discover, and delegate it with agent_delegate.',
      'Say everything that the agent needs to know: it does not see this conversation.',
      'Follow the run with run_get until it has ended. Report the result, with the id of the run.',
    ].join('\n'),
}

const askForApproval: Offered = {
  prompt: {
    name: 'ask_for_approval',
    title: 'Ask for approval',
    description: 'Ask a person before something is done, and do it only after their yes.',
    arguments: [
      { name: 'item', description: 'the thing to approve', required: true },
      { name: 'details', description: 'everything that the person should know' },
    ],
  },
  text: ({ item, details }) =>
    [
      `Ask a person for approval with ask_approve: ${item}`,
      ...(details ? [`Details: ${details}`] : []),
      'Put each fact that matters into `details`. Wait for the answer; if there is none yet, call again with exactly the same arguments.',
      'Only `approved` lets you go on. A rejection, or no answer, does not.',
    ].join('\n'),
}

const offered = new Map([handOver, askForApproval].map((offer) => [offer.prompt.name, offer]))
export const prompts: readonly Prompt[] = [...offered.values()].map(({ prompt }) => prompt)

const INVALID_PARAMS = -32_602
export function promptNamed(name: string, args: Readonly<Record<string, string>> = {}): GetPromptResult {
  const invalid = (message: string): ProtocolError => new ProtocolError(INVALID_PARAMS, message)
  const found = offered.get(name)
  if (!found) throw invalid(`there is no prompt ${JSON.stringify(name)}: there are ${[...offered.keys()].join(', ')}`)
  const known = found.prompt.arguments ?? []
  for (const [field, value] of Object.entries(args)) {
    if (!known.some((argument) => argument.name === field)) throw invalid(`${name} takes no argument ${JSON.stringify(field)}`)
    if (value.length > limits.textCharsMax) throw invalid(`${field} has more than ${limits.textCharsMax} characters`)
  }
  const missing = known.find((argument) => argument.required === true && !args[argument.name])
  if (missing) throw invalid(`${name}: ${missing.name} is required`)
  return { messages: [{ role: 'user', content: { type: 'text', text: found.text(args) } }] }
}
