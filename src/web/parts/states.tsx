// The states of a page without content: loading, empty, failed to load.
import { useEffect, useState, type ReactNode } from 'react'
import { Link } from 'wouter'
import { CountersignError } from '#sdk/index.ts'
import { messageOf } from '../server/errors.ts'
import { Icon, type IconName } from './icon.tsx'

type Mark = { readonly icon: IconName; readonly tone: 'ok' | 'bad' | 'warn' | 'accent' }
type EmptyProps = Mark & { readonly title: string; readonly children?: ReactNode; readonly testId?: string; readonly alert?: boolean }
export function Empty({ icon, tone, title, children, testId, alert = false }: EmptyProps) {
  return (
    <div className="empty" data-testid={testId} role={alert ? 'alert' : undefined}>
      <div className={`mark ${tone}`}>
        <Icon name={icon} />
      </div>
      <h2>{title}</h2>
      {children}
    </div>
  )
}

type FailedProps = {
  readonly what: string
  /** One object with an address, such as `task`, and the list that it belongs to. */
  readonly thing?: string
  readonly back?: string
  readonly error: unknown
  again(): void
  readonly testId?: string
}
export function Failed({ what, thing, back, error, again, testId = 'load-error' }: FailedProps) {
  if (thing !== undefined && error instanceof CountersignError && error.status === 404)
    return (
      <Empty icon="search" tone="accent" title={`We can't find this ${thing}`} testId={testId} alert>
        <p>It may have been removed, or you don't have access.</p>
        {back !== undefined && (
          <Link className="btn sm" href={back}>
            Back to {back.slice(1)}
          </Link>
        )}
      </Empty>
    )
  return (
    <Empty icon="alert" tone="bad" title={`${what} could not be loaded`} testId={testId} alert>
      <p>
        {thing === undefined && 'This does not mean that it is empty. '}
        {messageOf(error)}
      </p>
      <button type="button" className="btn sm" onClick={again}>
        Try again
      </button>
    </Empty>
  )
}

/** The placeholder during loading, shown only after a moment. */
export function Skeleton({ rows = 4 }: { readonly rows?: number }) {
  const [isLate, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 150)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div className="skeleton" aria-busy="true" aria-label="Loading">
      {isLate &&
        Array.from({ length: rows }, (_, i) => (
          <div className="row" key={i}>
            <span className="sk block" />
            <span className="grow lines">
              <span className={`sk w${(i % 4) + 1}`} />
              <span className={`sk faint w${((i + 2) % 4) + 1}`} />
            </span>
          </div>
        ))}
    </div>
  )
}

type Loads<T> = { readonly data: T | undefined; readonly error: unknown; readonly isPending: boolean; refetch(): unknown }
/** The content of a query, or its state. Loaded content stays during a refetch. */
export function Loaded<T>({ from, what, children }: { readonly from: Loads<T>; readonly what: string; children(data: T): ReactNode }) {
  if (from.data !== undefined) return <>{children(from.data)}</>
  if (from.error) return <Failed what={what} error={from.error} again={() => void from.refetch()} />
  return <Skeleton />
}

export function Banner({
  tone,
  icon,
  children,
}: {
  readonly tone: 'ok' | 'bad' | 'warn'
  readonly icon: IconName
  readonly children: ReactNode
}) {
  return (
    <div className={`banner ${tone}`}>
      <Icon name={icon} />
      {children}
    </div>
  )
}

/** A refusal next to its button. */
export function Refused({ error, testId = 'refused' }: { readonly error: unknown; readonly testId?: string }) {
  if (error === null || error === undefined) return null
  return (
    <p className="refused" role="alert" data-testid={testId}>
      <Icon name="alert" />
      <span>{typeof error === 'string' ? error : messageOf(error)}</span>
    </p>
  )
}
