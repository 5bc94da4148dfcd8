// A worker for the planner: start it twice, as two agents.
//
//   COUNTERSIGN_KEY=... node examples/writer.ts agent_writer_1
import { serve } from 'countersign/agent'

const agent_id = process.argv[2] ?? 'agent_writer_1'
const capabilities = [{ capability_id: 'cap:write', version: '1.1.0' }]

serve<{ goal: string }>(
  { agent_id, name: 'Writer', capabilities, concurrency: 1 },
  async (run) => {
    const { result } = await run.ask.provide(`What should I write about this: ${run.input.goal}?`)
    await run.commit(`${run.input.goal}: ${result}`)
  },
  { signals: true },
)
