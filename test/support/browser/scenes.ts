// Scenes for the page: items as a busy week has them.
import type { Stage } from './stage.ts'

const minutes = (n: number): { timeout_seconds: number } => ({ timeout_seconds: n * 60 })

/** An inbox with some of everything; answers the items by short names. */
export async function busyWeek({ ask, call }: Stage): Promise<Record<string, any>> {
  const migration = await ask(
    'deployer',
    {
      item: 'Run database migration 0042 on prod-eu-1',
      details: {
        tool: 'db.migrate',
        target: 'prod-eu-1',
        arguments: {
          version: '0042',
          dry_run: false,
          lock_timeout_ms: 5000,
          statements: [
            'ALTER TABLE invoices ADD COLUMN tax_code text',
            "UPDATE invoices SET tax_code = 'DE19' WHERE country = 'DE'",
            'CREATE INDEX CONCURRENTLY ON invoices (tax_code)',
          ],
        },
      },
      context: 'All 214 tests pass on staging. Expected lock on invoices: under 2 seconds.',
    },
    { risk: 'R4', priority: 'high', ...minutes(24) },
  )
  const region = await ask(
    'deployer',
    {},
    {
      action: 'DECIDE',
      payload: {
        question: 'Which region goes first?',
        options: ['eu-north-1', 'eu-central-1', 'us-east-1'],
        default_option: 'eu-central-1',
        context:
          'eu-north-1 has 4 % of the traffic, eu-central-1 38 %, us-east-1 51 % and it is night there. Small regions first; each step takes 35 minutes.',
      },
      fallback: 'default',
      risk: 'R2',
      ...minutes(420),
    },
  )
  const wire = await ask(
    'planner',
    {
      item: 'Wire €48,200.00 to Nordwind GmbH',
      details: { target: 'Nordwind GmbH', iban: 'DE89 3704 0044 0532 0130 00', amount: 48200, currency: 'EUR' },
    },
    { risk: 'R5', priority: 'critical', quorum: { n: 2, of: ['user_maya', 'user_tom', 'user_ines'] }, ...minutes(8) },
  )
  const notes = await ask(
    'scribe',
    { item: 'Publish the release notes of 3.4', details: { channel: 'website' } },
    { risk: 'R2', role: 'pool' },
  )
  const rename = await ask('robin', { item: 'Rename the weekly report', details: { from: 'Weekly', to: 'The week' } }, { risk: 'R1' })
  const archive = await ask('robin', { item: 'Archive channel #old-web', details: { channel: '#old-web' } }, { risk: 'R1' })
  const address = await ask(
    'planner',
    {},
    {
      action: 'PROVIDE',
      payload: { prompt: 'Which e-mail address answers refunds?', input_type: 'email', placeholder: 'name@example.com' },
      risk: 'R1',
    },
  )
  const token = await ask(
    'deployer',
    {},
    {
      action: 'PROVIDE',
      payload: { prompt: 'API token of the status page', input_type: 'text', sensitive: true, validation: { max: 200 } },
      risk: 'R2',
      ...minutes(540),
    },
  )
  await call('maya', 'execution/request.question', {
    request_id: migration.id,
    text: 'Is there a backup we have restored from, not only taken?',
  })
  await call('deployer', 'execution/request.reply', {
    request_id: migration.id,
    text: 'Snapshot snap-0412 of 04:00 UTC. It was restored to staging at 05:10 and passed the checks.',
  })
  return { migration, region, wire, notes, rename, archive, address, token }
}
