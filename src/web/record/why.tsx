// The explanation of one thing in the record: the path from the person who answers for it to the thing itself, read from left to right.
import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import type { Output } from '#sdk/index.ts'
import { Icon } from '../parts/icon.tsx'
import { Page } from '../parts/page.tsx'
import { Loaded } from '../parts/states.tsx'
import { ShortId } from '../parts/text.tsx'
import { wholeTime } from '../parts/time.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { call } from '../server/client.ts'
import { capital, useMe, useNameOf } from '../server/names.ts'
import '../style/pages/why.css'

type Why = Output<'collaboration/audit.why'>
type Step = Why['steps'][number]

function StepCard({ step }: { readonly step: Step }) {
  const nameOf = useNameOf()
  if (step.hidden || step.actor === null)
    return (
      <li className="card step hidden" data-testid="why-step">
        <p className="muted">A step that you may not read.</p>
      </li>
    )
  return (
    <li className="card step" data-testid="why-step" data-action={step.action}>
      <p className="row">
        <Who name={nameOf(step.actor.id)} sort={sortOf(step.actor.id)} />
        <b>{capital(nameOf(step.actor.id))}</b>
      </p>
      <p className="mono">{step.action?.slice(step.action.indexOf('/') + 1)}</p>
      <p className="muted">{capital(step.basis?.message ?? '')}</p>
      <p className="note">
        <ShortId id={step.subject_id ?? ''} />
        {step.at !== null && <> · {wholeTime(step.at)}</>}
      </p>
      {step.signed_by_passkey && (
        <p className="chip ok">
          <Icon name="approve" /> signed by passkey
        </p>
      )}
      <p className="note mono">
        {step.project_id} {step.seq} · {step.hash?.slice(0, 8)}…
      </p>
    </li>
  )
}

export default function WhyPage({ id }: { readonly id: string }) {
  const nameOf = useNameOf()
  const me = useMe().data?.id
  const why = useQuery({ queryKey: ['why', id], queryFn: () => call('collaboration/audit.why', { id }), retry: false })
  return (
    <Page title="Why" about={`Who answers for ${id}.`} actions={<Link href="/record">Record</Link>}>
      <Loaded from={why} what="The explanation">
        {({ steps, person, gaps }) => (
          <div className="why">
            <p className="answer" data-testid="why-person">
              <Icon name={person === null ? 'alert' : 'approve'} />{' '}
              {person === null
                ? `No person answers for it: ${gaps.join(' ')}.`
                : person === me
                  ? 'You answer for it.'
                  : `${nameOf(person)} answers for it.`}
            </p>
            <ol aria-label="From the person to the thing">
              {steps.toReversed().map((step, i) => (
                <StepCard key={`${step.project_id} ${step.seq ?? i}`} step={step} />
              ))}
            </ol>
          </div>
        )}
      </Loaded>
    </Page>
  )
}
