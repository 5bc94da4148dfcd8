// Narrow screens: as narrow as a phone, the page has a bar below instead of the rail, and never both.
import { useSyncExternalStore } from 'react'

const narrow = matchMedia('(max-width: 760px)')
const subscribe = (listener: () => void): (() => void) => {
  narrow.addEventListener('change', listener)
  return () => narrow.removeEventListener('change', listener)
}
export const useNarrow = (): boolean => useSyncExternalStore(subscribe, () => narrow.matches)
