// Proposed actions: an approval can cover some of them; the others are denied.
import { RiskBadge } from '../parts/risk.tsx'
import { Said } from '../parts/text.tsx'
import { leavesOf, valueText } from '../item/arguments.tsx'
import type { Item, ProposedAction, Risk } from '../server/types.ts'
import { isVerdict } from './kinds/words.ts'

const risks: Readonly<Record<string, Risk>> = { low: 'R1', medium: 'R3', high: 'R4' }

const isAction = (value: unknown): value is ProposedAction => {
  const { id, summary } = (value ?? {}) as Partial<Record<string, unknown>>
  return typeof id === 'string' && typeof summary === 'string'
}
/** The proposed actions of a checkpoint, each approved separately. In other items, a field of that name is an ordinary argument. */
export function proposedIn(item: Item): readonly ProposedAction[] {
  if (!isVerdict(item.action) || item.kind === 'request' || item.kind === 'review') return []
  const { proposed_actions: proposed } = (item.card.payload.details ?? {}) as { proposed_actions?: unknown }
  return Array.isArray(proposed) && proposed.every(isAction) ? proposed : []
}

type Props = { readonly actions: readonly ProposedAction[]; readonly chosen: ReadonlySet<string>; choose(next: ReadonlySet<string>): void }
export function ProposedActions({ actions, chosen, choose }: Props) {
  const toggle = (id: string): void => {
    const next = new Set(chosen)
    if (!next.delete(id)) next.add(id)
    choose(next)
  }
  return (
    <fieldset className="exact proposed">
      <legend className="sr">Proposed actions</legend>
      <header>
        Proposed actions
        <span className="grow" />
        <span className="note">
          {chosen.size === actions.length
            ? `All ${actions.length} actions selected`
            : `${chosen.size} of ${actions.length} actions selected, the others are denied`}
        </span>
      </header>
      <ul>
        {actions.map((action) => (
          <li key={action.id}>
            <label className="check">
              <input type="checkbox" aria-label={action.summary} checked={chosen.has(action.id)} onChange={() => toggle(action.id)} />
              <span className="grow">
                <b>
                  <Said>{action.summary}</Said>
                </b>
                {leavesOf({ ...action, summary: undefined, risk: undefined })
                  .filter(({ value }) => value !== undefined)
                  .map(({ path, value }) => (
                    <span className="note mono" key={path}>
                      {path}: <Said>{valueText(value)}</Said>
                    </span>
                  ))}
              </span>
              {action.risk !== undefined && <RiskBadge risk={risks[action.risk] ?? 'R3'} />}
            </label>
          </li>
        ))}
      </ul>
    </fieldset>
  )
}
