// Commands of a page, run by a key, the palette, or both. Single keys do nothing in fields, with a modifier, on repeat, while a dialog is
// open, or when they are switched off. Keys that decide also require that the page has not moved for a moment.
import { useLayoutEffect, useRef } from 'react'
import { createListeners, createStore } from '../parts/store.ts'

export type Command = {
  readonly title: string
  /** A key as `event.key` names it, or two with a space between them, one after the other. */
  readonly keys?: readonly string[]
  readonly group: 'This item' | 'List' | 'Go to' | 'Page'
  /** The command decides an item, so it waits until the item has been read. */
  readonly decides?: boolean
  /** Takes precedence over commands offered later: a selection goes before the open item. */
  readonly first?: boolean
  /** Works with Ctrl or Cmd, also in fields. */
  readonly withModifier?: boolean
  run(): void
}

type Offer = { commands: readonly Command[] }
const offers = createStore<readonly Offer[]>([])
const offeredCommands = (): Command[] =>
  offers
    .get()
    .toReversed()
    .flatMap(({ commands }) => commands)
export function useCommandList(): readonly Command[] {
  offers.use()
  return offeredCommands()
}

/** Offers commands while the component is mounted. If keys collide, the last offered command wins. */
export function useCommands(commands: readonly Command[]): void {
  const offer = useRef<Offer>({ commands })
  // Layout effects register and update the commands before the paint, so that a key pressed as soon as they show counts.
  useLayoutEffect(() => {
    offer.current.commands = commands
  })
  useLayoutEffect(() => {
    const mine = offer.current
    offers.set([...offers.get(), mine])
    return () => offers.set(offers.get().filter((other) => other !== mine))
  }, [])
}

const SINGLE = 'single-keys'
const singles = createStore(localStorage.getItem(SINGLE) !== 'off')
export const singleKeys = {
  get: singles.get,
  set(on: boolean): void {
    localStorage.setItem(SINGLE, on ? 'on' : 'off')
    singles.set(on)
  },
}
export const useSingleKeys = (): boolean => singles.use()

export const QUIET_MS = 300
let movedAt = 0
const moveListeners = createListeners()
/** Called when content appears or moves, or the window gets the focus: for a moment no key decides. */
export function noteMove(): void {
  movedAt = performance.now()
  moveListeners.notify()
}
export const onMove = moveListeners.add
export const isSettled = (): boolean => performance.now() - movedAt >= QUIET_MS
addEventListener('focus', noteMove)
addEventListener('resize', noteMove)

const isField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && !isToggle(target)
const isToggle = (target: HTMLElement): boolean =>
  target instanceof HTMLInputElement && (target.type === 'checkbox' || target.type === 'radio')

/** Takes a letter before any command; returns whether it did. `isElsewhere`: the letter's command is for the list or page, not an item. */
type Taker = (letter: string, isElsewhere: boolean) => boolean
const takers: { take: Taker | null }[] = []
/** For a field that asks for a phrase: it receives letters wherever the focus is, and they are not shortcuts while it is shown. */
export function useLetters(take: Taker | null): void {
  const held = useRef({ take })
  useLayoutEffect(() => {
    held.current.take = take
  })
  useLayoutEffect(() => {
    const mine = held.current
    takers.push(mine)
    return () => void takers.splice(takers.indexOf(mine), 1)
  }, [])
}

const CHORD_MS = 1_500
const TOGETHER_MS = 25
let first: { readonly key: string; readonly at: number } | null = null
let lastKeyAt = 0

function commandFor(keys: string, event: KeyboardEvent): Command | undefined {
  const isModified = event.ctrlKey || event.metaKey
  const fitting = offeredCommands().filter(
    (command) => command.keys?.includes(keys) === true && (command.withModifier === true) === isModified,
  )
  return fitting.find(({ first: isFirst }) => isFirst === true) ?? fitting[0]
}

const MODIFIERS = ['Control', 'Meta', 'Shift', 'Alt', 'AltGraph']

function onKeyDown(event: KeyboardEvent): void {
  // A modifier is half of a shortcut. The other half follows quickly, and must not count as a burst of pasted or accidental keys.
  if (MODIFIERS.includes(event.key)) return
  const since = performance.now() - lastKeyAt
  lastKeyAt = performance.now()
  if (event.defaultPrevented || event.altKey || event.isComposing || event.repeat) return
  const isModified = event.ctrlKey || event.metaKey
  const isInDialog = document.querySelector('dialog[open]') !== null
  if (isInDialog || (!isModified && (isField(event.target) || !singles.get()))) return
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
  const named = event.shiftKey && /^[a-z]$/.test(key) ? `Shift+${key}` : key
  const begun = first !== null && performance.now() - first.at < CHORD_MS ? first.key : null
  first = null
  const isLetter = begun === null && !isModified && event.key.length === 1 && event.key !== ' '
  const bound = commandFor(named, event)
  const isElsewhere = key === 'g' || (bound !== undefined && bound.group !== 'This item')
  if (isLetter && bound?.first !== true && takers.at(-1)?.take?.(event.key, isElsewhere) === true) return event.preventDefault()
  if (begun === null && key === 'g' && !isModified && !event.shiftKey) {
    first = { key, at: performance.now() }
    return
  }
  const command = begun === null ? commandFor(named, event) : commandFor(`${begun} ${key}`, event)
  if (!command) return
  if (command.decides === true && (!isSettled() || since < TOGETHER_MS)) return event.preventDefault()
  // A button or a link that has the focus is pressed by Enter itself.
  if (key === 'Enter' && event.target instanceof Element && event.target.closest('button, a, summary, [role=option]') !== null) return
  event.preventDefault()
  command.run()
}
addEventListener('keydown', onKeyDown)
