// Taking a grant back, with effect from its next use.
import { useState } from 'react'
import { useMutation } from '@tanstack/react-query'
import { FormDialog } from '../parts/dialog.tsx'
import { call, queries } from '../server/client.ts'

export function RevokeButton({ grant }: { readonly grant: { readonly id: string; readonly scope: string } }) {
  const [isOpen, setOpen] = useState(false)
  const revoke = useMutation({
    mutationFn: () => call('collaboration/grant.revoke', { grant_id: grant.id }),
    onSuccess() {
      void queries.invalidateQueries({ queryKey: ['grants'] })
      setOpen(false)
    },
  })
  return (
    <>
      <button type="button" className="btn sm" onClick={() => setOpen(true)}>
        Revoke
      </button>
      {isOpen && (
        <FormDialog
          name="Revoke"
          about={<code>{grant.scope}</code>}
          danger
          close={() => setOpen(false)}
          busy={revoke.isPending}
          error={revoke.error}
          send={() => revoke.mutate()}
        >
          <p>People are asked again from the next use on.</p>
        </FormDialog>
      )}
    </>
  )
}
