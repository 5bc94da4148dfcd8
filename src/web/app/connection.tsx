// The state of the live connection: a dot with its word, once on every page.
import { useConnection } from '../server/live.ts'

const labels = { live: 'Live', reconnecting: 'Reconnecting', offline: 'Offline' } as const

export function ConnectionState({ bare = false }: { readonly bare?: boolean }) {
  const { connection } = useConnection()
  return (
    <span className={bare ? 'live bare' : 'live'} data-testid="connection" data-state={connection} role="status" title={labels[connection]}>
      <span className={bare ? 'sr' : undefined}>{labels[connection]}</span>
    </span>
  )
}
