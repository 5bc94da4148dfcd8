// A button that asks before it acts: for steps that another person feels, or that cannot be taken back.
import { useState, type ReactNode } from 'react'
import { useMutation } from '@tanstack/react-query'
import { FormDialog } from '../parts/dialog.tsx'
import { queries } from '../server/client.ts'

type Props = {
  /** The words on the button, and on that of the dialog. */
  readonly name: string
  readonly about: string
  readonly changes: readonly string[]
  readonly danger?: boolean
  readonly blocked?: string | undefined
  readonly children?: ReactNode
  act(): Promise<unknown>
}
export function ConfirmButton({ name, about, changes, danger = false, blocked, children, act }: Props) {
  const [isOpen, setOpen] = useState(false)
  const send = useMutation({
    mutationFn: act,
    onSuccess: () => setOpen(false),
    onSettled: () => changes.forEach((key) => void queries.invalidateQueries({ queryKey: [key] })),
  })
  return (
    <>
      <button
        type="button"
        className="btn sm"
        title={blocked}
        aria-disabled={blocked !== undefined || undefined}
        onClick={() => blocked === undefined && setOpen(true)}
      >
        {name}
      </button>
      {isOpen && (
        <FormDialog
          name={name}
          about={about}
          danger={danger}
          busy={send.isPending}
          error={send.error}
          send={() => send.mutate()}
          close={() => setOpen(false)}
        >
          {children}
        </FormDialog>
      )}
    </>
  )
}
