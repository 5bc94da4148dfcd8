// The verdict of a review: met criteria, comments and requested changes. Drafted comments are sent with it.
import { useState, type ReactNode } from 'react'
import { useMutation } from '@tanstack/react-query'
import { useLocation } from 'wouter'
import { useCommands } from '../app/commands.ts'
import { Guarded, useSettled } from '../decide/guarded.tsx'
import { Radios, TextArea } from '../parts/fields.tsx'
import { Refused } from '../parts/states.tsx'
import { plural, Said, shortDigest } from '../parts/text.tsx'
import type { Input } from '#sdk/index.ts'
import { call, queries } from '../server/client.ts'
import { useDraft } from '../server/drafts.ts'
import type { Artifact, Task } from '../server/types.ts'
import type { DraftComment } from './comments.tsx'

type Verdict = 'approved' | 'changes_requested' | 'rejected'

function Criteria({ task }: { readonly task: Task }) {
  const { acceptance_criteria: criteria } = task.spec
  const [met, setMet] = useDraft<readonly string[]>(`criteria/${task.id}`, [])
  if (criteria.length === 0) return null
  return (
    <section>
      <h2 className="h">What was agreed</h2>
      <ul className="crit">
        {criteria.map((criterion) => (
          <li key={criterion}>
            <input
              type="checkbox"
              aria-label={`Met: ${criterion}`}
              checked={met.includes(criterion)}
              onChange={() => setMet(met.includes(criterion) ? met.filter((other) => other !== criterion) : [...met, criterion])}
            />
            <Said>{criterion}</Said>
          </li>
        ))}
      </ul>
      <p className="note">For yourself. Only the verdict is sent.</p>
    </section>
  )
}

type Props = {
  readonly task: Task
  readonly artifact: Artifact
  readonly drafts: readonly DraftComment[]
  readonly isVerified: boolean
  clear(): void
  /** Verdicts on versions before this one. */
  readonly earlier: ReactNode
}
const verdictsOn = ({ kind }: Props['artifact']) => [
  { value: 'approved', label: 'Approve', note: kind === 'plan' ? 'The agent goes on with this plan.' : 'The task is done.' },
  { value: 'changes_requested', label: 'Request changes', note: 'Back to the agent, with your comments.' },
  ...(kind === 'plan' ? [] : [{ value: 'rejected', label: 'Reject', note: 'The task ends as rejected.' }]),
]

export function VerdictPanel({ task, artifact, drafts, isVerified, clear, earlier }: Props) {
  const [verdict, setVerdict] = useState<Verdict | ''>('')
  const [changes, setChanges, clearChanges] = useDraft(`changes/${task.id}`, '')
  const [, go] = useLocation()
  const settled = useSettled(artifact.version)
  const lines = changes
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const submit = useMutation({
    async mutationFn() {
      const comments = drafts.map(({ anchor, severity, body }) => ({ anchor, severity, body }))
      const input = {
        task_id: task.id,
        artifact_id: artifact.id,
        artifact_version: artifact.version,
        kind: artifact.kind,
        verdict: verdict as Verdict,
        ...(comments.length === 0 ? {} : { comments }),
        ...(lines.length === 0 ? {} : { requested_changes: lines }),
      } as Input<'collaboration/review.submit'>
      return call('collaboration/review.submit', input)
    },
    onSuccess() {
      clear()
      clearChanges()
      void queries.invalidateQueries({ queryKey: ['tasks'] })
      void queries.invalidateQueries({ queryKey: ['task', task.id] })
      go(`/tasks/${task.id}`)
    },
  })
  const blocked =
    verdict === ''
      ? 'Choose a verdict.'
      : verdict === 'changes_requested' && lines.length === 0
        ? 'Say what must change.'
        : verdict === 'approved' && !isVerified
          ? 'The bytes could not be compared with the record.'
          : submit.isPending
            ? 'It is on its way.'
            : undefined
  useCommands([
    {
      title: 'Submit review',
      keys: ['Enter'],
      withModifier: true,
      decides: true,
      group: 'Page',
      run: () => blocked === undefined && submit.mutate(),
    },
    { title: 'Request changes', keys: ['c'], group: 'Page', run: () => setVerdict('changes_requested') },
  ])
  return (
    <aside className="verdict" aria-label="Your review">
      {earlier}
      <Criteria task={task} />
      <section>
        <h2 className="h">Your verdict</h2>
        <Radios label="Verdict" value={verdict} onValue={(value) => setVerdict(value as Verdict)} options={verdictsOn(artifact)} />
      </section>
      <TextArea
        label="What must change"
        value={changes}
        onValue={setChanges}
        rows={4}
        note="One change per line. The agent gets them as a list."
      />
      <section className="submit">
        <Refused error={submit.error} />
        <Guarded className="btn primary" blocked={blocked} settled={settled} keyHint="Ctrl ↵" press={() => submit.mutate()}>
          Submit review
        </Guarded>
        <p className="note">
          {blocked === undefined ? '' : `${blocked} `}
          {drafts.length > 0 && `${plural(drafts.length, 'draft comment')} ${drafts.length === 1 ? 'goes' : 'go'} along. `}
          You sign {artifact.version}, <span className="mono nowrap">{shortDigest(artifact.payload.checksum.replace('sha256:', ''))}</span>
        </p>
      </section>
    </aside>
  )
}
