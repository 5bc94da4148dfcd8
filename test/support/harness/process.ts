// A callee or a caller as a process of its own, which a test can kill at any step: `callee|caller <id> <url> <folder>`.
import { createCallee, createCaller, type CalleeSession } from '#apps/harness.ts'

const [role, id, url, data] = process.argv.slice(2) as [string, string, string, string]
const say = (line: string): void => void process.stdout.write(`${line}\n`)
const link = { id, url, data, reply: 'PT1S', gap: 'PT5S', log: 'error' } as const

if (role === 'callee') {
  await createCallee({
    ...link,
    callers: { 'lab-a': { capabilities: ['*'], risk_max: 'R4', data_max: 'T3' } },
    capabilities: [
      {
        declaration: { name: 'count', version: '1.0.0', description: 'Counts.', safety: { requires_human_approval: true } },
        approve: () => {
          say('asked')
          return { result: 'approved', by: ['ann'] }
        },
        async run(session: CalleeSession<{ count: number }>) {
          const from = (session.snapshot?.state as { next: number } | undefined)?.next ?? 0
          for (let i = from; i < session.inputs.count; i++) {
            await session.log('info', `line ${i}`)
            await session.checkpoint('one more', { next: i + 1 })
            say(`step ${i}`)
          }
          return { count: session.inputs.count }
        },
      },
    ],
  })
  say('ready')
} else {
  const caller = await createCaller(link)
  say('ready')
  const submitted = await caller.submit('lab-b', { capability: 'count', intent: 'Count.', inputs: { count: 12 } }, { key: 'the only one' })
  say(`submitted ${submitted.id}`)
  await submitted.accepted
  say('accepted')
  const seen: number[] = []
  for await (const { sequence, event_type } of submitted.events()) {
    seen.push(sequence)
    say(`event ${sequence} ${event_type}`)
  }
  const { outputs } = await submitted.result
  const { missing_sequences } = await submitted.session()
  say(`done ${JSON.stringify({ outputs, seen, missing_sequences, id: submitted.id })}`)
}
