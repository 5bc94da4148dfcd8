// A harness that grows films for others: a capability, its risk rules, a safety envelope, and the work itself.
import { createCallee, type CalleeSession } from 'countersign/harness'

await createCallee({
  id: 'lab-b',
  url: process.env['COUNTERSIGN_AMQP_URL'] ?? 'amqp://lab-b:lab-b@127.0.0.1:5699/hcp',
  data: process.env['COUNTERSIGN_DATA'] ?? 'data/lab-b',
  callers: { 'lab-a': { capabilities: ['*'], risk_max: 'R4', data_max: 'T2' } },
  capabilities: [
    {
      declaration: {
        name: 'synthesis',
        version: '1.2.0',
        description: 'Grows a film.',
        input_schema: { type: 'object', properties: { temperature: { type: 'number' } }, required: ['temperature'] },
        output_schema: { type: 'object', required: ['thickness_nm'] },
        safety: { risk_ceiling: 'R4', requires_human_approval: false },
      },
      // Above 800 degrees a person must approve. Without an `approve` function such work is denied.
      risk_rules: [{ path: 'temperature', op: '>', value: 800, raise_to: 'R4' }],
      safety_envelope: { parameters: { temperature: { max: 900, unit: 'C' } } },
      async run(session: CalleeSession<{ temperature: number }>) {
        await session.guard({ parameter: 'temperature', value: session.inputs.temperature })
        // After a crash the work continues after the last grown layer.
        const from = (session.snapshot?.state as { layer: number } | undefined)?.layer ?? 0
        for (let layer = from + 1; layer <= 3; layer++) {
          await session.progress({ stage: 'growing', percent: Math.round((layer / 3) * 100), message: `layer ${layer}` })
          await session.checkpoint({ description: `layer ${layer} is grown`, state: { layer } })
        }
        session.artifact({ name: 'protocol.txt', type: 'text/plain', text: 'Three layers, no defects.' })
        return { thickness_nm: 2 }
      },
    },
  ],
})
console.log('lab-b is ready')
