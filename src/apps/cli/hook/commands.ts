// The commands of `countersign hook`. The hook itself never comes here: `main.ts` runs it without the command line.
import { agentNames, isAgentName, lateAnswers, type AgentName } from '#bridges/hooks/dialects.ts'
import { spec, type Spec } from '../derive/command.ts'
import { flag } from '../derive/flags.ts'
import { usage } from '../exit-codes.ts'
import { checkHook } from './check.ts'
import { installHook } from './install.ts'
import { resumeSession } from './resume.ts'

const program = { ...flag('program', 'program', `the agent: ${agentNames.join(', ')}`), required: true }
const wait = flag('wait', 'duration', 'how long a call waits for a person (PT9M)')
const late = flag('late', 'answer', 'the answer after that: ask (Claude Code, Cursor), deny, or defer (Claude Code without a terminal)', {
  choices: [...lateAnswers],
})
const as = flag('agent', 'id', 'the agent of Countersign that asks')

function agentIn(name: unknown): AgentName {
  if (typeof name === 'string' && isAgentName(name)) return name
  throw usage(`there is no hook for ${JSON.stringify(name)}`, `use one of ${agentNames.join(', ')}`)
}

const hookSpec = spec('hook', "Answer one event of an agent's hook: JSON on standard input, its decision on standard output.", {
  positionals: [program],
  flags: [wait, late, as],
  examples: ['countersign hook claude-code', 'countersign hook claude-code --wait PT1M --late defer'],
  // Only reached for an unknown program: a known one is answered before the command line is loaded.
  run: async (_, given) => void agentIn(given.get('program')),
})

const installSpec = spec(
  'hook install',
  'Make the tools of an agent ask Countersign: writes its settings, shows the changes, keeps a key.',
  {
    isLocal: true,
    positionals: [program],
    flags: [
      as,
      wait,
      late,
      flag('managed', null, "write the machine's settings, which the agent cannot change; needs root"),
      flag('undo', null, 'take the changes back and revoke the key'),
    ],
    examples: ['countersign hook install claude-code --agent agent_coder', 'countersign hook install claude-code --undo'],
    run: (context, given) =>
      installHook(context, {
        agent: agentIn(given.get('program')),
        as: given.get('agent') as string | undefined,
        wait: given.get('wait') as string | undefined,
        late: given.get('late') as string | undefined,
        isManaged: given.get('managed') === true,
        isUndo: given.get('undo') === true,
      }),
  },
)

const checkSpec = spec('hook check', 'Send a harmless call through the installed hook and see it denied.', {
  isLocal: true,
  positionals: [program],
  examples: ['countersign hook check claude-code'],
  run: (context, given) => checkHook(context, agentIn(given.get('program'))),
})

const session = { ...flag('session', 'session', "the session's id, as Claude Code printed it"), required: true }
const resumeSpec = spec('hook resume', 'Wait for the answer to a deferred call, then continue the Claude Code session.', {
  isLocal: true,
  positionals: [session],
  flags: [as],
  examples: ['countersign hook resume 0d3f6c1e-5b0e-4c57-9d6a-0a8a6c1f2b3d -- --allowedTools Bash'],
  run: (context, given) => resumeSession(context, given.get('session') as string, given.get('agent') as string | undefined),
})

export const hookSpecs: readonly Spec[] = [hookSpec, installSpec, checkSpec, resumeSpec]
