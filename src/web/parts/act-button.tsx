// A button that calls the server immediately. It is busy during the call and shows the server's message next to it on refusal.
import type { ReactNode, Ref } from 'react'
import { useMutation } from '@tanstack/react-query'
import { queries } from '../server/client.ts'
import { tellError } from '../app/error-toast.tsx'

type Props = {
  readonly children: ReactNode
  readonly className?: string
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
