// Notice of a newer version of the page, which loads only when the user asks for it. The page checks after each reconnect, because an
// upgraded server has restarted.
import { useEffect, useState } from 'react'
import { onBack } from '../server/live.ts'

async function isNewer(): Promise<boolean> {
  const answer = await fetch('/inbox', { headers: { accept: 'text/html' } })
  const loadedPath = new URL(import.meta.url).pathname
  const entry = /src="(\/assets\/page-[^"]+\.js)"/.exec(await answer.text())?.[1]
  const loaded = [...document.scripts].some(({ src }) => entry !== undefined && new URL(src, location.origin).pathname === entry)
  return answer.ok && entry !== undefined && entry !== loadedPath && !loaded
}

export function NewVersion() {
  const [isThere, setThere] = useState(false)
  useEffect(() => onBack(() => void isNewer().then(setThere, () => undefined)), [])
  if (!isThere) return null
  return (
    <div className="toast version" role="status" data-testid="new-version">
      <span>A new version of this page is available. Your typed text is kept.</span>
      <button type="button" className="btn sm" onClick={() => location.reload()}>
        Load it
      </button>
      <button type="button" className="btn sm" onClick={() => setThere(false)}>
        Later
      </button>
    </div>
  )
}
