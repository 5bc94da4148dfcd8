// An agent as a process of its own, to be killed at any point: each step that has an effect is a line in the file that it is given.
import { appendFileSync } from 'node:fs'
import { serve } from 'countersign/agent'

const [agent, file, leaseMs] = process.argv.slice(2) as [string, string, string]
const note = (line: string): void => appendFileSync(file, `${line}\n`)

serve<{ goal: string }>(
  agent,
  async (run) => {
    note(`begun ${run.attempt}`)
    const plan = await run.memo('plan', () => {
      note('planned')
      return `plan for ${run.input.goal}`
    })
    const { reason } = await run.ask.approve(`Shall I? ${plan}`)
    note(`approved ${reason}`)
    const { result: input } = await run.ask.provide('Which branch?')
    await run.ledger.write('branch', input)
    await run.commit(`${plan} on ${input}`)
    note('delivered')
  },
  { leaseMs: Number(leaseMs), waitMs: 5_000, signals: true },
)
process.stdout.write('ready\n')
