// A harness that has another harness grow films: it submits a task, follows it, and gets the reason why a second one is refused.
import { createCaller, type SessionEnded } from 'countersign/harness'

const caller = await createCaller({
  id: 'lab-a',
  url: process.env['COUNTERSIGN_AMQP_URL'] ?? 'amqp://lab-a:lab-a@127.0.0.1:5699/hcp',
  data: process.env['COUNTERSIGN_DATA'] ?? 'data/lab-a',
})
const film = await caller.submit('lab-b', { capability: 'synthesis', intent: 'Grow a film of MoS2.', inputs: { temperature: 700 } })
console.log('accepted, risk', (await film.accepted).risk_level)
for await (const { sequence, event_type, data } of film.events())
  console.log(sequence, event_type, (data as { message?: string }).message ?? '')
console.log('outputs', JSON.stringify((await film.result).outputs))

const hot = await caller.submit('lab-b', { capability: 'synthesis', intent: 'Grow it hotter.', inputs: { temperature: 950 } })
await hot.result.catch((error: unknown) => console.log((error as SessionEnded).code))
await caller.stop()
