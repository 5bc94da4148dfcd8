// Three voices, never mixed: what the server knows, what the agent says, and who acts for whom.
import { Link } from 'wouter'
import { Icon } from '../parts/icon.tsx'
import { riskWords } from '../parts/risk.tsx'
import { plural, Said } from '../parts/text.tsx'
import { serverNow } from '../server/client.ts'
import { capital, useMe, useNameOf } from '../server/names.ts'
import { momentOf, span } from '../parts/time.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import type { Item } from '../server/types.ts'

function RiskFact({ item }: { readonly item: Item }) {
  const { risk } = item
  const facts = item.facts.risk
  if (risk === null) return <>none was named, and no rule gives it one</>
  if (facts?.floor && facts.floor === risk && facts.said !== risk)
    return (
      <>
        {riskWords(risk)}, by the rule <Said mono>{typeof facts.rule === 'string' ? facts.rule : JSON.stringify(facts.rule)}</Said>;{' '}
        {facts.said === null ? 'the agent named none' : `the agent said ${facts.said}`}
      </>
    )
  return <>{riskWords(risk)}, as the agent says</>
}

type Precedents = readonly { readonly result: unknown }[]
function Before({ item }: { readonly item: Item }) {
  const found = item.facts.precedents as Precedents | undefined
  if (found === undefined) return null
  const approved = found.filter(({ result }) => result === 'approved').length
  const rejected = found.filter(({ result }) => result === 'rejected').length
  const words =
    found.length === 0
      ? 'nothing like it was decided'
      : `${plural(found.length, 'answer')} to the same: ${approved} approved, ${rejected} rejected`
  return (
    <>
      <dt>Before</dt>
      <dd>{item.action === 'APPROVE' || found.length === 0 ? words : plural(found.length, 'answer')}</dd>
    </>
  )
}

export function Facts({ item }: { readonly item: Item }) {
  const { facts, agent } = item
  const nameOf = useNameOf()
  const known = facts.agent.registered_at
  return (
    <section className="card facts" data-testid="item-facts" aria-label="What Countersign knows">
      <h2 className="h">
        <Icon name="approve" />
        What Countersign knows
      </h2>
      <dl>
        <dt>Risk</dt>
        <dd>
          <RiskFact item={item} />
        </dd>
        <dt>Agent</dt>
        <dd>
          <Said>{nameOf(agent.id, agent.name)}</Said> <code className="muted">{agent.id}</code>
          {known !== null && `, known for ${span(serverNow() - Date.parse(known))}`}
          {agent.label !== agent.id && (
            <>
              , calls itself <Said mono>{agent.label}</Said>
            </>
          )}
        </dd>
        <dt>Open now</dt>
        <dd>{plural(facts.agent.open_requests, 'request')} of this agent</dd>
        <dt>Project</dt>
        <dd>
          <Said>{facts.project.name ?? facts.project.id}</Said>
        </dd>
        {facts.task !== null && (
          <>
            <dt>Task</dt>
            <dd>
              <Link className="link" href={`/tasks/${facts.task.id}`}>
                <bdi>{facts.task.goal}</bdi>
              </Link>
              , {facts.task.state.replace('_', ' ')}
              {facts.task.deadline !== null && `, due ${momentOf(facts.task.deadline)}`}
            </dd>
          </>
        )}
        <Before item={item} />
        <dt>Text</dt>
        <dd data-testid={facts.flagged.length > 0 ? 'item-flagged' : undefined}>
          {facts.flagged.length === 0 ? (
            'nothing hidden or look-alike in it'
          ) : (
            <ul className="flagged">
              {facts.flagged.map((words) => (
                <li key={words}>
                  <Icon name="alert" />
                  <Said>{words}</Said>
                </li>
              ))}
            </ul>
          )}
        </dd>
      </dl>
    </section>
  )
}

export function Claim({ item }: { readonly item: Item }) {
  if (item.reason === null) return null
  return (
    <section className="claim" data-testid="item-claim" aria-label="What the agent says">
      <h2 className="h">
        <Icon name="agent" />
        What the agent says
      </h2>
      <blockquote>
        <Said>{item.reason.text}</Said>
      </blockquote>
      <p className="note">Its own words. Nobody has checked them.</p>
    </section>
  )
}

export function Chain({ item }: { readonly item: Item }) {
  const me = useMe().data?.id
  const nameOf = useNameOf()
  const links = item.facts.chain ?? [
    { kind: 'person' as const, ...item.acts_for },
    ...(item.agent.id === item.acts_for.id ? [] : [{ kind: 'agent' as const, id: item.agent.id, name: item.agent.name }]),
  ]
  const lastAgent = links.findLastIndex(({ kind }) => kind === 'agent' || kind === 'system')
  const roleOf = (kind: string, at: number): string => {
    if (kind === 'target') return 'is acted on'
    if (at === 0) return links[0]!.id === me ? 'answer for it' : 'answers for it'
    return at === lastAgent ? 'asks' : 'delegated the work'
  }
  return (
    <section className="card facts" aria-label="Who acts for whom">
      <h2 className="h">Who acts for whom</h2>
      <ol className="chain down" data-testid="item-chain" aria-label="Who acts for whom">
        {links.map(({ kind, id, name }, at) => (
          <li key={`${kind} ${id}`}>
            <Who name={kind === 'target' ? id : nameOf(id, name)} sort={kind === 'target' ? 'system' : sortOf(id)} />
            <span>
              {kind === 'target' ? <Said mono>{id}</Said> : <Said>{capital(nameOf(id, name))}</Said>}
              <small>{roleOf(kind, at)}</small>
            </span>
          </li>
        ))}
      </ol>
    </section>
  )
}

/** The server's words, with its times as people here read them. */
const sentence = (words: string): string => {
  const told = words.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (at) => momentOf(at))
  const begun = capital(told)
  return /[.?]$/.test(begun) ? begun : `${begun}.`
}

export function EffectList({ item }: { readonly item: Item }) {
  const { effects, action } = item
  const isApproval = action === 'APPROVE' || item.kind === 'review'
  return (
    <section className="sect" aria-label="What happens next">
      <h2 className="h">What happens next</h2>
      <dl className="card fates" data-testid="item-effects">
        <div>
          <dt>
            <Icon name="check" />
            {isApproval ? 'If you approve' : 'If you answer'}
          </dt>
          <dd>{sentence(effects.approve)}</dd>
        </div>
        <div>
          <dt>
            <Icon name="x" />
            If you reject
          </dt>
          <dd>{sentence(effects.reject)}</dd>
        </div>
        <div>
          <dt>
            <Icon name="clock" />
            If nobody answers
          </dt>
          <dd>{sentence(effects.timeout)}</dd>
        </div>
      </dl>
    </section>
  )
}
