// Insight: the number of questions, their answers, the time to an answer, and where agents wait longest.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { Select } from '../parts/fields.tsx'
import { Page } from '../parts/page.tsx'
import { ProjectFilter, useProject } from '../parts/project.tsx'
import { Empty, Loaded } from '../parts/states.tsx'
import { dayOf, span } from '../parts/time.tsx'
import { capital, useNameOf } from '../server/names.ts'
import { Bars, Lines, Plot } from './plot.tsx'
import { sinceFirstRequest, together, trendsBy, type By, type Day, type Trend } from './trends.ts'

const outcomes = [
  { name: 'approved', tone: 'ok' },
  { name: 'rejected', tone: 'bad' },
  { name: 'expired', tone: 'warn' },
] as const

function Numbers({ days }: { readonly days: readonly Day[] }) {
  return (
    <details>
      <summary>The numbers as a table</summary>
      <div className="over">
        <table className="grid">
          <thead>
            <tr>
              {['Day', 'Asked', 'Approved', 'Rejected', 'Expired', 'Median', 'P90'].map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {days
              .filter(({ asked, approved, rejected, expired }) => asked + approved + rejected + expired > 0)
              .map(({ day, asked, approved, rejected, expired, p50, p90 }) => (
                <tr key={day}>
                  <td className="nowrap">{dayOf(day)}</td>
                  <td>{asked}</td>
                  <td>{approved}</td>
                  <td>{rejected}</td>
                  <td>{expired}</td>
                  <td>{p50 === null ? '' : span(p50 * 1_000)}</td>
                  <td>{p90 === null ? '' : span(p90 * 1_000)}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </details>
  )
}

function Plots({ title, days }: { readonly title: string; readonly days: readonly Day[] }) {
  const names = days.map(({ day }) => day)
  const answered = days.reduce((sum, { approved, rejected }) => sum + approved + rejected, 0)
  const asked = days.reduce((sum, day) => sum + day.asked, 0)
  const [from, to] = [dayOf(days[0]!.day), dayOf(days.at(-1)!.day)]
  const most = Math.max(...days.map(({ approved, rejected, expired }) => approved + rejected + expired))
  const longest = Math.max(0, ...days.flatMap(({ p90 }) => (p90 === null ? [] : [p90])))
  return (
    <section className="card insight" aria-label={title}>
      <header className="row">
        <h2 className="h grow">
          <bdi>{title}</bdi>
        </h2>
        <span className="note">
          {asked} asked, {answered} approved or rejected
        </span>
      </header>
      {most + longest === 0 ? (
        <p className="muted">Nothing was answered yet.</p>
      ) : (
        <>
          <Plot
            title="Answers a day"
            top={String(most)}
            from={from}
            to={to}
            legend={outcomes.map(({ name, tone }) => [name, tone] as const)}
          >
            <Bars
              label={`Answers a day: ${title}`}
              days={names}
              series={outcomes.map(({ name, tone }) => ({ name, tone, values: days.map((day) => day[name]) }))}
            />
          </Plot>
          <Plot
            title="Time to an answer"
            top={span(longest * 1_000)}
            from={from}
            to={to}
            legend={[
              ['Median', 'accent'],
              ['90th percentile', 'warn'],
            ]}
          >
            <Lines
              label={`Time to an answer: ${title}`}
              days={names}
              series={[
                { name: 'p50', tone: 'accent', values: days.map(({ p50 }) => p50) },
                { name: 'p90', tone: 'warn', values: days.map(({ p90 }) => p90) },
              ]}
            />
          </Plot>
          <Numbers days={days} />
        </>
      )}
    </section>
  )
}

/** The five with the longest 90th percentile of the time to an answer. */
function Longest({ trends, by }: { readonly trends: readonly Trend[]; readonly by: By }) {
  const nameOf = useNameOf()
  const ranked = trends
    .map(({ id, name, days }) => {
      const known = days.flatMap(({ p90 }) => (p90 === null ? [] : [p90]))
      return { id, name, seconds: known.length === 0 ? null : Math.max(...known) }
    })
    .filter(({ seconds }) => seconds !== null)
    .toSorted((one, other) => other.seconds! - one.seconds!)
    .slice(0, 5)
  if (ranked.length === 0) return null
  return (
    <section className="card insight" aria-label="Where agents wait longest">
      <h2 className="h">Where agents wait longest</h2>
      <ol className="ranked">
        {ranked.map(({ id, name, seconds }) => (
          <li key={id}>
            <span className="grow clip">{by === 'rule' ? name : capital(nameOf(id, name))}</span>
            <span className="meter">
              <i style={{ width: `${(seconds! / ranked[0]!.seconds!) * 100}%` }} />
            </span>
            <span className="mono">{span(seconds! * 1_000)}</span>
          </li>
        ))}
      </ol>
    </section>
  )
}

export default function InsightPage() {
  const [by, setBy] = useState<By>('agent')
  const [days, setDays] = useState('30')
  const nameOf = useNameOf()
  const chosen = useProject()
  const trends = useQuery({
    queryKey: ['trends', by, days, chosen.project],
    queryFn: async () => sinceFirstRequest(await trendsBy(by, Number(days), chosen.input)),
  })
  return (
    <Page
      title="Insight"
      about="How questions are answered, and how long it takes."
      actions={
        <>
          <ProjectFilter of={chosen} />
          <Select
            compact
            label="By"
            value={by}
            onValue={(value) => setBy(value as By)}
            options={[
              ['agent', 'By agent'],
              ['person', 'By person'],
              ['rule', 'By rule'],
            ]}
          />
          <Select
            compact
            label="Days"
            value={days}
            onValue={setDays}
            options={[
              ['7', '7 days'],
              ['30', '30 days'],
              ['90', '90 days'],
            ]}
          />
        </>
      }
    >
      <Loaded from={trends} what="The trends">
        {(found) =>
          found.length === 0 ? (
            <Empty icon="chart" tone="accent" title="Nothing was asked yet">
              <p>Questions of agents are counted here, day by day.</p>
            </Empty>
          ) : (
            <div className="insights">
              <Plots title="All together" days={together(found)} />
              <Longest trends={found} by={by} />
              {found.map((trend) => (
                <Plots key={trend.id} title={by === 'rule' ? trend.name : capital(nameOf(trend.id, trend.name))} days={trend.days} />
              ))}
            </div>
          )
        }
      </Loaded>
    </Page>
  )
}
