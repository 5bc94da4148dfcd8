// The head of a page: its title, its description and its actions.
import type { ReactNode } from 'react'

type Props = {
  readonly title: ReactNode
  readonly about?: ReactNode
  readonly crumb?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}
export function Page({ title, about, crumb, actions, children }: Props) {
  return (
    <div className="page">
      <header>
        <div className="row head">
          <div className="grow">
            {crumb !== undefined && <div className="crumb">{crumb}</div>}
            <h1>{title}</h1>
            {about !== undefined && <div className="muted">{about}</div>}
          </div>
          {actions !== undefined && <div className="row wrap actions">{actions}</div>}
        </div>
      </header>
      <div className="body">{children}</div>
    </div>
  )
}
