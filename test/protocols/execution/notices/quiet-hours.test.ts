// Quiet hours by the clock on the wall, across both changes of daylight saving, in three zones and on some days of the week.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { quietProblem, quietUntil, type QuietHours } from '#protocols/execution/notices/quiet-hours.ts'

const night = (zone: string, more: Partial<QuietHours> = {}): QuietHours => ({ from: '22:00', to: '07:00', zone, ...more })
const until = (quiet: QuietHours, now: string): string | null => quietUntil(quiet, now)?.replace('.000Z', 'Z') ?? null

/** Written down by hand from the tables of the zones. */
const cases: readonly (readonly [name: string, quiet: QuietHours, now: string, until: string | null])[] = [
  ['Berlin, an hour is left out', night('Europe/Berlin'), '2026-03-28T22:00:00Z', '2026-03-29T05:00:00Z'],
  ['Berlin, the night before', night('Europe/Berlin'), '2026-03-27T22:00:00Z', '2026-03-28T06:00:00Z'],
  ['Berlin, an hour comes twice', night('Europe/Berlin'), '2026-10-24T21:00:00Z', '2026-10-25T06:00:00Z'],
  ['Berlin, in the second of the two hours', night('Europe/Berlin'), '2026-10-25T01:30:00Z', '2026-10-25T06:00:00Z'],
  ['Berlin, by day', night('Europe/Berlin'), '2026-10-25T12:00:00Z', null],
  ['Berlin, the first quiet minute', night('Europe/Berlin'), '2026-07-01T20:00:00Z', '2026-07-02T05:00:00Z'],
  ['Berlin, the minute before', night('Europe/Berlin'), '2026-07-01T19:59:59Z', null],
  ['New York, an hour is left out', night('America/New_York'), '2026-03-08T04:00:00Z', '2026-03-08T11:00:00Z'],
  ['New York, an hour comes twice', night('America/New_York'), '2026-11-01T04:00:00Z', '2026-11-01T12:00:00Z'],
  ['Lord Howe, half an hour comes twice', night('Australia/Lord_Howe'), '2026-04-04T13:00:00Z', '2026-04-04T20:30:00Z'],
  ['Lord Howe, half an hour is left out', night('Australia/Lord_Howe'), '2026-10-03T13:00:00Z', '2026-10-03T20:00:00Z'],
  [
    'they end in the hour that is left out',
    { from: '22:00', to: '02:30', zone: 'Europe/Berlin' },
    '2026-03-28T23:00:00Z',
    '2026-03-29T01:00:00Z',
  ],
  ['within one day', { from: '12:00', to: '13:00', zone: 'Europe/Berlin' }, '2026-07-01T10:30:00Z', '2026-07-01T11:00:00Z'],
  ['on weekdays, the night to Saturday', night('Europe/Berlin', { days: 'mon-fri' }), '2026-07-03T23:00:00Z', '2026-07-04T05:00:00Z'],
  ['on weekdays, the night to Sunday', night('Europe/Berlin', { days: 'mon-fri' }), '2026-07-04T21:00:00Z', null],
  ['across the week', night('Europe/Berlin', { days: 'sat-mon' }), '2026-07-05T21:00:00Z', '2026-07-06T05:00:00Z'],
  ['single days', night('Europe/Berlin', { days: 'tue,thu' }), '2026-07-01T21:00:00Z', null],
  ['a clock without a zone', { from: '22:00', to: '07:00', offset_minutes: 60 }, '2026-01-01T21:00:00Z', '2026-01-02T06:00:00Z'],
]

describe('quiet hours', () => {
  for (const [name, quiet, now, expected] of cases) test(name, () => assert.equal(until(quiet, now), expected))

  test('quiet hours last until their end: a minute before it is quiet, at the end it is not', () => {
    for (const zone of ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kolkata'])
      for (let at = Date.UTC(2026, 0, 1); at < Date.UTC(2027, 0, 1); at += 5.5 * 3_600_000) {
        const end = quietUntil(night(zone), new Date(at).toISOString())
        if (end === null) continue
        assert.equal(quietUntil(night(zone), end), null, `${zone} ${end}`)
        assert.notEqual(quietUntil(night(zone), new Date(Date.parse(end) - 60_000).toISOString()), null, `${zone} ${end}`)
        assert.ok(Date.parse(end) - at <= 10 * 3_600_000, `${zone} ${end}`)
      }
  })

  test('a zone that does not exist, none at all or an empty night is refused', () => {
    assert.match(quietProblem(night('Mars/Olympus'))!, /no zone Mars\/Olympus/)
    assert.match(quietProblem({ from: '22:00', to: '07:00' })!, /zone is missing/)
    assert.match(quietProblem(night('Europe/Berlin', { to: '22:00' }))!, /same/)
    assert.match(quietProblem(night('Europe/Berlin', { offset_minutes: 60 }))!, /not both/)
  })
})
