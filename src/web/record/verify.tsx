// Verification of the record, with its limits. Owners verify the whole chain, others a task.
import { Icon } from '../parts/icon.tsx'
import { plural } from '../parts/text.tsx'
import { call } from '../server/client.ts'

export type Checked = {
  readonly valid: boolean
  readonly events: number
  readonly to: number
  readonly head: string | null
  readonly ms: number
  readonly what: string | null
  readonly of: 'chain' | 'task'
}

/** The chain of a project, stretch by stretch. */
export async function verifyChain(project_id: string): Promise<Checked> {
  const began = performance.now()
  let [events, cursor] = [0, undefined as string | undefined]
  for (;;) {
    const page = await call('collaboration/audit.verify', { project_id, ...(cursor === undefined ? {} : { cursor }) })
    events += page.verified
    const isOver = page.next_cursor === null || !page.valid
    if (isOver) {
      const finding = page.findings[0]
      const what =
        page.difference === null
          ? finding === undefined
            ? null
            : `${finding.what}: ${finding.how}`
          : `event ${page.difference.seq}: ${page.difference.what}`
      return { valid: page.valid, events, to: page.to_seq, head: page.head.hash, ms: performance.now() - began, what, of: 'chain' }
    }
    cursor = page.next_cursor!
  }
}
/** One task, rebuilt from its events. */
export async function verifyTask(task_id: string): Promise<Checked> {
  const began = performance.now()
  const { matches, replayed, difference } = await call('collaboration/audit.replay', { task_id })
  const what = difference === null ? null : `event ${difference.seq}: ${difference.what}`
  return { valid: matches, events: replayed, to: replayed, head: null, ms: performance.now() - began, what, of: 'task' }
}

export function VerifyResult({ checked }: { readonly checked: Checked }) {
  const { valid, events, to, head, ms, what } = checked
  const isTask = checked.of === 'task'
  return (
    <section className="card proofs" data-testid="verify-result" data-valid={valid} role="status" aria-label="Verification">
      <div className="proof">
        <span className={valid ? 'seal' : 'seal wrong'}>
          <Icon name={valid ? 'approve' : 'alert'} />
        </span>
        <div>
          <h2>
            {valid
              ? isTask
                ? `Verified: the record matches (${plural(events, 'event')})`
                : `Every one of ${plural(events, 'event')} is in its place`
              : 'The record was changed'}
          </h2>
          <p className="muted">
            {valid ? `Checked in ${(ms / 1_000).toFixed(1)} s.` : `The first difference: ${what ?? 'not named'}.`}
            {head !== null && (
              <>
                {' '}
                Last hash <span className="mono">{head}</span>
              </>
            )}
          </p>
        </div>
      </div>
      {valid && (
        <div className="proves">
          <div>
            <h3 className="h">This shows</h3>
            <ul>
              <li>
                <Icon name="check" />
                <span>
                  {isTask ? 'The stored task is the one that its events describe.' : 'No event in it was changed, removed or inserted.'}
                </span>
              </li>
              {!isTask && (
                <li>
                  <Icon name="check" />
                  <span>They are numbered from 1 to {to.toLocaleString('en')} without a gap.</span>
                </li>
              )}
            </ul>
          </div>
          <div>
            <h3 className="h">It does not show</h3>
            <ul>
              <li>
                <Icon name="more" />
                <span>
                  {isTask
                    ? 'That the chain of the project is whole: its owners verify that.'
                    : 'That it was never rewritten as a whole, or cut off at its end: compare the last hash with one you kept.'}
                </span>
              </li>
            </ul>
          </div>
        </div>
      )}
    </section>
  )
}
