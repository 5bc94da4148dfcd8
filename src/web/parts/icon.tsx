// Icons, drawn on a grid of 16. Screen readers skip them: each has a text label next to it.
import type { ReactNode } from 'react'

const drawings = {
  inbox: <path d="M2 9.5 4 3.3A1 1 0 0 1 5 2.6h6a1 1 0 0 1 1 .7l2 6.2v3a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1zM2 9.5h3.4l.9 1.7h3.4l.9-1.7H14" />,
  task: (
    <>
      <rect x="2.5" y="2.5" width="11" height="11" rx="2.2" />
      <path d="m5.4 8.1 1.8 1.8 3.5-3.7" />
    </>
  ),
  review: (
    <>
      <path d="M13.4 8.7a2 2 0 0 1-2 2H6.8l-3 2.6v-8.6a2 2 0 0 1 2-2h5.6a2 2 0 0 1 2 2z" />
      <path d="M6.6 6.7h4M8.6 4.7v4" />
    </>
  ),
  agent: (
    <>
      <rect x="3" y="5" width="10" height="8" rx="2.2" />
      <path d="M8 5V2.6M6 8.6v.8M10 8.6v.8" />
    </>
  ),
  grant: (
    <>
      <circle cx="5.4" cy="10.6" r="2.9" />
      <path d="m7.5 8.5 5.7-5.7M11 5l1.7 1.7M9.3 6.7l1.2 1.2" />
    </>
  ),
  record: (
    <>
      <path d="M3 3.5h10M3 8h10M3 12.5h6" />
      <path d="m11 12.4 1.1 1.1 1.9-2" />
    </>
  ),
  gear: (
    <>
      <circle cx="8" cy="8" r="2" />
      <path d="M8 1.9v1.7M8 12.4v1.7M14.1 8h-1.7M3.6 8H1.9M12.3 3.7l-1.2 1.2M4.9 11.1l-1.2 1.2M12.3 12.3l-1.2-1.2M4.9 4.9 3.7 3.7" />
    </>
  ),
  approve: (
    <>
      <path d="M8 1.9 13 4v3.7c0 3-2.1 5.3-5 6.4-2.9-1.1-5-3.4-5-6.4V4z" />
      <path d="m5.8 7.9 1.6 1.6 2.9-3.1" />
    </>
  ),
  decide: <path d="M8 13.6V9.2M8 9.2 3.4 4.6M8 9.2l4.6-4.6M3.2 7.4V4.4h3M12.8 7.4V4.4h-3" />,
  provide: <path d="M3 13h10M4.6 10.4l.5-2.4 5.6-5.6 1.9 1.9L7 9.9z" />,
  alert: <path d="M8 2.4 14.2 13H1.8zM8 6.6v3M8 11.3v.1" />,
  stop: (
    <>
      <path d="M5.3 2h5.4L14 5.3v5.4L10.7 14H5.3L2 10.7V5.3z" />
      <path d="M6 8h4" />
    </>
  ),
  clock: (
    <>
      <circle cx="8" cy="8" r="5.8" />
      <path d="M8 4.8V8l2.1 1.3" />
    </>
  ),
  check: <path d="m3.2 8.5 3.1 3.1 6.5-7" />,
  x: <path d="m4 4 8 8M12 4l-8 8" />,
  more: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2" />,
  search: (
    <>
      <circle cx="7" cy="7" r="4.3" />
      <path d="m10.3 10.3 3.2 3.2" />
    </>
  ),
  filter: <path d="M2.4 4h11.2M4.6 8h6.8M6.8 12h2.4" />,
  chevron: <path d="m6 4 4 4-4 4" />,
  back: <path d="M9.8 3.4 5.2 8l4.6 4.6" />,
  edit: <path d="m3 13 .7-2.9 6.9-6.9 2.2 2.2-6.9 6.9z" />,
  ask: <path d="M13.4 8.6a2 2 0 0 1-2 2H6.8l-3 2.6V4.7a2 2 0 0 1 2-2h5.6a2 2 0 0 1 2 2z" />,
  snooze: (
    <>
      <circle cx="8" cy="8.6" r="4.9" />
      <path d="M6.4 6.9h3.2l-3.2 3.4h3.2M3 3.4 1.8 4.6M13 3.4l1.2 1.2" />
    </>
  ),
  person: (
    <>
      <circle cx="8" cy="5.4" r="2.6" />
      <path d="M3 13.4c.6-2.7 2.5-4 5-4s4.4 1.3 5 4" />
    </>
  ),
  file: <path d="M4 2.4h5l3.2 3.2v7.2a.9.9 0 0 1-.9.9H4a.9.9 0 0 1-.9-.9V3.3a.9.9 0 0 1 .9-.9zM9 2.4v3.2h3.2" />,
  play: <path d="M5 3.4v9.2l7.4-4.6z" />,
  hand: (
    <path d="M5 8V4.2a1 1 0 0 1 2 0V7m0-3.4a1 1 0 0 1 2 0V7m0-2.8a1 1 0 0 1 2 0v4.6c0 2.8-1.6 4.8-4 4.8-2 0-3-1-4.4-3.6l-.9-1.7c-.4-.9.8-1.5 1.4-.8L5 8.9" />
  ),
  wifi: <path d="M2 6.2a9 9 0 0 1 12 0M4.2 8.8a5.6 5.6 0 0 1 7.6 0M8 12h.01M2.5 2.5l11 11" />,
  link: (
    <path d="M6.7 9.3a2.6 2.6 0 0 0 3.7 0l2-2a2.6 2.6 0 0 0-3.7-3.7l-.7.7M9.3 6.7a2.6 2.6 0 0 0-3.7 0l-2 2a2.6 2.6 0 0 0 3.7 3.7l.7-.7" />
  ),
  download: <path d="M8 2.6v7.6M4.8 7.2 8 10.4l3.2-3.2M3 13.2h10" />,
  flag: <path d="M4 14V2.6h7.6L10 5.6l1.6 3H4" />,
  chart: <path d="M2.6 13.4h10.8M4.4 11V8.2M8 11V4.6M11.6 11V6.6" />,
  plus: <path d="M8 3.2v9.6M3.2 8h9.6" />,
  folder: <path d="M2.4 12.6V4a.9.9 0 0 1 .9-.9h3l1.5 1.7h4.9a.9.9 0 0 1 .9.9v6.9a.9.9 0 0 1-.9.9H3.3a.9.9 0 0 1-.9-.9z" />,
  pause: <path d="M5.4 3.6v8.8M10.6 3.6v8.8" />,
} satisfies Record<string, ReactNode>

export type IconName = keyof typeof drawings

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      {drawings[name]}
    </svg>
  )
}

export function Seal() {
  return (
    <svg viewBox="0 0 24 24" fill="none" aria-hidden="true" className="seal-mark">
      <path d="M12 1.6 20.4 5v6.4c0 5.1-3.5 9-8.4 10.9C7.1 20.4 3.6 16.5 3.6 11.4V5z" className="seal-body" />
      <path d="m7.6 11.3 3 3 5.8-6.2" className="seal-line" strokeWidth="2" strokeLinecap="round" strokeLinejoin="round" />
      <path d="M8.4 17.6h7.2" className="seal-line" strokeWidth="1.4" strokeLinecap="round" opacity=".7" />
    </svg>
  )
}
