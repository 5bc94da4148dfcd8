// The page for an unknown path.
import { Link } from 'wouter'
import { Empty } from '../parts/states.tsx'

export function NotFound() {
  return (
    <div className="page">
      <h1 className="sr">Not found</h1>
      <Empty icon="search" tone="accent" title="We can't find this page">
        <p>The address might be old or incomplete.</p>
        <Link className="btn sm" href="/inbox">
          To the inbox
        </Link>
      </Empty>
    </div>
  )
}
