// Announcements for screen readers: polite for events, assertive for refusals.
function region(kind: 'polite' | 'assertive'): HTMLElement {
  const known = document.querySelector<HTMLElement>(`[data-announce=${kind}]`)
  if (known) return known
  const made = document.createElement('div')
  made.className = 'sr'
  made.dataset['announce'] = kind
  made.setAttribute('aria-live', kind)
  document.body.append(made)
  return made
}
export function announce(message: string, kind: 'polite' | 'assertive' = 'polite'): void {
  const place = region(kind)
  place.textContent = ''
  requestAnimationFrame(() => (place.textContent = message))
}
