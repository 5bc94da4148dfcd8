// Facts in three separate parts: the server's knowledge, the agent's statements, and the chain of delegation.
import { Link } from 'wouter'
import { isVerdict } from '../decide/kinds/words.ts'
import { Icon, type IconName } from '../parts/icon.tsx'
import { riskLabel } from '../parts/risk.tsx'
import { plural, Said } from '../parts/text.tsx'
import { serverNow } from '../server/client.ts'
import { capital, useMe, useNameOf } from '../server/names.ts'
import { longSpan, momentOf } from '../parts/time.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { stateLabel } from '../tasks/states.ts'
import type { Item, Task } from '../server/types.ts'
import { CallFacts } from './call.tsx'

/** Such as "your rule for the tag “production”"; the server has it as one line. */
function useRuleText(): (rule: unknown) => string {
  const nameOf = useNameOf()
  return (rule) => {
    const [, conditions, whose] = /^at least R\d for (.*), set by (\S+)$/.exec(String(rule)) ?? []
    if (conditions === undefined || whose === undefined) return `the rule “${String(rule)}”`
    const who = whose.startsWith('user_') ? nameOf(whose) : 'this project'
    const about = conditions === 'everything' ? conditions : conditions.replaceAll(/(\w+) ([^,]+)/g, 'the $1 “$2”')
    return `${who === 'you' ? 'your' : `${who}’s`} rule for ${about}`
  }
}

function RiskFact({ item }: { readonly item: Item }) {
  const ruleText = useRuleText()
  const { risk } = item
  const facts = item.facts.risk
  if (risk === null) return <>Not rated</>
  if (item.facts.call) return <>{riskLabel(risk)}, by the policy</>
  if (facts?.floor && facts.floor === risk && facts.said !== risk)
    return (
      <>
        {riskLabel(risk)}. {facts.said === null ? 'The agent gave none' : `The agent said ${facts.said}`};{' '}
        <Said>{ruleText(facts.rule)}</Said> raised it.
      </>
    )
  return <>{riskLabel(risk)}, as the agent says</>
}

type Precedents = readonly { readonly result: unknown }[]
function Before({ item }: { readonly item: Item }) {
  const found = item.facts.precedents as Precedents | undefined
  if (found === undefined) return null
  const approved = found.filter(({ result }) => result === 'approved').length
  const rejected = found.filter(({ result }) => result === 'rejected').length
  const summary =
    found.length === 0
      ? 'No earlier decision like this'
      : `${plural(found.length, 'answer')} to the same: ${approved} approved, ${rejected} rejected`
  return (
    <>
      <dt>Before</dt>
      <dd>{isVerdict(item.action) || found.length === 0 ? summary : plural(found.length, 'answer')}</dd>
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
        {sortOf(agent.id) === 'agent' && (
          <>
            <dt>Agent</dt>
            <dd title={agent.id}>
              <Said>{nameOf(agent.id, agent.name)}</Said>
              {known !== null && `, registered ${longSpan(serverNow() - Date.parse(known))} ago`}
              {agent.label !== agent.id && (
                <>
                  , calls itself <Said mono>{agent.label}</Said>
                </>
              )}
            </dd>
            <dt>Open now</dt>
            <dd>{plural(facts.agent.open_requests, 'request')} from this agent</dd>
          </>
        )}
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
              , {stateLabel({ state: facts.task.state as Task['state'], outcome: null, pending_checkpoint: null }).toLowerCase()}
              {facts.task.deadline !== null && `, due ${momentOf(facts.task.deadline)}`}
            </dd>
          </>
        )}
        <CallFacts item={item} />
        <Before item={item} />
        <dt>Text</dt>
        <dd data-testid={facts.flagged.length > 0 ? 'item-flagged' : undefined}>
          {facts.flagged.length === 0 ? (
            'No hidden or look-alike characters'
          ) : (
            <ul className="flagged">
              {facts.flagged.map((warning) => (
                <li key={warning}>
                  <Icon name="alert" />
                  <Said>{warning}</Said>
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
      <p className="note">The agent wrote this. Nobody has checked it.</p>
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
              {kind === 'target' ? <Said mono>{id}</Said> : <Said>{capital(nameOf(id, name))}</Said>} <small>{roleOf(kind, at)}</small>
            </span>
          </li>
        ))}
      </ol>
    </section>
  )
}

/** The server's words, with its times as people here read them. */
export const sentence = (text: string): string => {
  const localized = text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (at) => momentOf(at))
  const begun = capital(localized)
  return /[.?]$/.test(begun) ? begun : `${begun}.`
}

export function EffectList({ item }: { readonly item: Item }) {
  const { effects, action, kind } = item
  const isTalk = isVerdict(action) && (kind === 'escalation' || kind === 'interrupt')
  const isApproval = isVerdict(action) || kind === 'review'
  const yes = !isApproval
    ? 'If you answer'
    : kind === 'escalation'
      ? 'If you tell the agent'
      : isTalk
        ? 'If you let it go on'
        : 'If you approve'
  const isDecline = !isApproval && item.declinable
  const fates: readonly (readonly [IconName, string, string])[] = [
    ['check', yes, effects.approve],
    ...(effects.changes === undefined ? [] : [['back', 'If you request changes', effects.changes] as const]),
    ['x', isDecline ? 'If you decline' : isTalk ? 'If you end the task' : 'If you reject', isDecline ? effects.decline : effects.reject],
    ['clock', 'If nobody answers', effects.timeout],
  ]
  return (
    <section className="sect" aria-label="What happens next">
      <h2 className="h">What happens next</h2>
      <dl className="card fates" data-testid="item-effects">
        {fates.map(([icon, label, effect]) => (
          <div key={label}>
            <dt>
              <Icon name={icon} />
              {label}
            </dt>
            <dd>{sentence(effect)}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}
