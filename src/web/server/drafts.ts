// Drafts: text that the user typed and has not sent. They survive a reload and an ended session, in this tab only. Secrets are never saved.
import { useState } from 'react'

const PREFIX = 'draft:'
function read<T>(key: string, initial: T): T {
  try {
    const stored = sessionStorage.getItem(PREFIX + key)
    return stored === null ? initial : (JSON.parse(stored) as T)
  } catch {
    return initial
  }
}
function write(key: string, value: unknown): void {
  try {
    sessionStorage.setItem(PREFIX + key, JSON.stringify(value))
  } catch {
    // A full or forbidden storage loses the draft at a reload, not before.
  }
}
export const hasDraft = (key: string): boolean => read(key, '') !== ''
export function dropDraft(key: string): void {
  sessionStorage.removeItem(PREFIX + key)
}

export function dropDrafts(): void {
  for (const key of Object.keys(sessionStorage)) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key)
}

export function useDraft<T>(key: string, initial: T): readonly [T, (value: T) => void, () => void] {
  const [held, hold] = useState({ key, value: read(key, initial) })
  const value = held.key === key ? held.value : read(key, initial)
  if (held.key !== key) hold({ key, value })
  return [
    value,
    (next) => {
      write(key, next)
      hold({ key, value: next })
    },
    () => {
      dropDraft(key)
      hold({ key, value: initial })
    },
  ]
}
