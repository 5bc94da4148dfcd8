// Announcements for screen readers: polite for events, assertive for refusals.
function region(kind: 'polite' | 'assertive'): HTMLElement {
  const known = document.querySelector<HTMLElement>(`[data-announce=${kind}]`)
  if (known) return known
  const region = document.createElement('div')
  region.className = 'sr'
  region.dataset['announce'] = kind
  region.setAttribute('aria-live', kind)
  document.body.append(region)
  return region
}
export function announce(message: string, kind: 'polite' | 'assertive' = 'polite'): void {
  const place = region(kind)
  place.textContent = ''
  requestAnimationFrame(() => (place.textContent = message))
}
