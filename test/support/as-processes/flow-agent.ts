// The agent's part of the reference flow as a process of its own. Its effect outside is a line in a file that is on the disk before
// it is remembered; what is remembered names the line.
import { randomUUID } from 'node:crypto'
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs'
import { serve } from 'countersign/agent'

const [agent, effects, leaseMs] = process.argv.slice(2) as [string, string, string]

function append(line: string): void {
  const file = openSync(effects, 'a')
  writeSync(file, `${line}\n`)
  fsyncSync(file)
  closeSync(file)
}

serve<{ goal: string }>(
  agent,
  async (run) => {
    const effect = await run.memo('effect', () => {
      const made = `${run.id} ${randomUUID()}`
      append(made)
      return made
    })
    const { reason: comment } = await run.ask.approve(`Shall I go on with ${run.input.goal}?`)
    await run.progress('almost done', 90)
    await run.ledger.write(run.input.goal, { effect, comment })
    await run.commit(effect)
  },
  { leaseMs: Number(leaseMs), waitMs: 5_000 },
)
process.stdout.write('ready\n')
