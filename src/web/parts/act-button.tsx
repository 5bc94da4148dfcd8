// A button that acts on the server at once: busy while it does, and with the server's words beside it when it was refused.
import type { ReactNode, Ref } from 'react'
import { useMutation } from '@tanstack/react-query'
import { queries } from '../server/client.ts'
import { tellError } from '../app/error-toast.tsx'

type Props = {
  readonly children: ReactNode
  readonly className?: string
  /** Queries whose answers are not known any more once it is done. */
  readonly changes: readonly string[]
  readonly blocked?: string | undefined
  readonly ref?: Ref<HTMLButtonElement>
  act(): Promise<unknown>
}
export function ActButton({ children, className = 'btn sm', changes, blocked, act, ref }: Props) {
  const send = useMutation({
    mutationFn: act,
    onError: tellError,
    onSettled: () => changes.forEach((key) => void queries.invalidateQueries({ queryKey: [key] })),
  })
  const isBlocked = send.isPending || blocked !== undefined
  return (
    <button
      ref={ref}
      type="button"
      className={className}
      title={blocked}
      aria-disabled={isBlocked || undefined}
      onClick={() => !isBlocked && send.mutate()}
    >
      {children}
    </button>
  )
}
