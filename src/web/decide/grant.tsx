// A grant from an approval, so that the person is not asked again: its extent, and the earlier questions that it would have answered.
import { useState } from 'react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { FormDialog } from '../parts/dialog.tsx'
import { Radios, TextField } from '../parts/fields.tsx'
import { plural, Said } from '../parts/text.tsx'
import { momentOf } from '../parts/time.tsx'
import { call, queries, serverNow } from '../server/client.ts'
import { messageOf } from '../server/errors.ts'
import type { Item } from '../server/types.ts'

const DAYS = 30

export function GrantPreview({ task_id, scope }: { readonly task_id: string; readonly scope: string }) {
  const preview = useQuery({
    queryKey: ['grant-preview', task_id, scope],
    queryFn: () => call('collaboration/grant.preview', { task_id, scope, days: DAYS }),
    enabled: scope.trim() !== '',
    retry: false,
  })
  const { data, error } = preview
  return (
    <div className="preview" data-testid="grant-preview" aria-busy={preview.isFetching}>
      {error !== null ? (
        <p className="muted">The number of requests that it would have answered is not known: {messageOf(error)}</p>
      ) : data === undefined ? (
        <p className="muted">Looking at the last {DAYS} days…</p>
      ) : (
        <>
          <b>
            In the last {DAYS} days it would have answered {plural(data.would_answer, 'request')}.
          </b>
          {data.would_answer > 0 && (
            <p className="muted">
              Of them people approved {data.approved} and rejected {data.rejected}.
            </p>
          )}
          <ul>
            {data.items
              .filter(({ result }) => result === 'rejected')
              .slice(0, 3)
              .map(({ request_id, title, at }) => (
                <li key={request_id}>
                  rejected: <Said>{title}</Said>, {momentOf(at)}
                </li>
              ))}
          </ul>
        </>
      )}
    </div>
  )
}

type Far = 'session' | 'uses' | 'task' | 'time'
export function GrantDialog({ item, close }: { readonly item: Item; close(): void }) {
  const task_id = item.task_id!
  const [scope, setScope] = useState(item.card.payload.scope ?? '')
  const [far, setFar] = useState<Far>('uses')
  const [hours] = useState(24)
  const until = new Date(serverNow() + hours * 3_600_000).toISOString()
  const grant = useMutation({
    mutationFn: () =>
      call('collaboration/grant.add', {
        task_id,
        scope: scope.trim(),
        decision: 'allow',
        until: far === 'session' ? 'session' : far === 'time' ? until : 'task',
        ...(far === 'uses' ? { uses: 3 } : {}),
      }),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ['grants'] })
      close()
    },
  })
  return (
    <FormDialog
      name="Grant"
      about="You are not asked again for exactly this. This item stays open: decide it separately."
      close={close}
      busy={grant.isPending}
      error={grant.error}
      blocked={scope.trim() === '' ? 'Enter a scope.' : undefined}
      send={() => grant.mutate()}
      wide
    >
      <TextField label="Scope" className="text mono" value={scope} onChange={(event) => setScope(event.target.value)} />
      <Radios
        label="How far"
        value={far}
        onValue={(value) => setFar(value as Far)}
        options={[
          { value: 'session', label: 'This run only' },
          { value: 'uses', label: '3 uses in this task', note: 'ends with the task' },
          { value: 'task', label: 'The whole task', note: 'ends with the task' },
          { value: 'time', label: 'For a day', note: `until ${momentOf(until)}` },
        ]}
      />
      <GrantPreview task_id={task_id} scope={scope.trim()} />
    </FormDialog>
  )
}
