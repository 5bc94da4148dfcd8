// A planner: it splits its goal into parts, delegates each to an agent that offers to write, and combines their deliverables. Under a task
// each part is a child task, so that people see who does what, and a worker's question reaches the same person.
//
//   COUNTERSIGN_KEY=... node examples/planner.ts
import { serve, type Run } from 'countersign/agent'

type Spec = { goal: string }
const capability = { capability_id: 'cap:write', version: '1.0.0' }

async function part(run: Run<Spec>, goal: string): Promise<string> {
  // The key says which part it is, whatever the order in which they are begun.
  const { result } = await run.delegate({ capability, spec: { goal }, key: goal })
  const { artifact_id, version } = result as { artifact_id: string; version: string }
  return new TextDecoder().decode(await run.open(artifact_id, version))
}

async function handle(run: Run<Spec>): Promise<void> {
  const goals = run.input.goal.split(' and ')
  await run.progress(`${goals.length} parts.`)
  const texts = await Promise.all(goals.map((goal) => part(run, goal)))
  await run.commit(texts.join('\n'), { type: 'text' })
}

serve<Spec>({ agent_id: 'agent_planner', name: 'Planner' }, handle, { signals: true })
