// Fields of forms, each with its label: one for words, one for a choice, one for a person or an agent by their name.
import { useEffect, useId, useState, type InputHTMLAttributes, type KeyboardEvent, type ReactNode } from 'react'
import { Who, sortOf } from './who.tsx'

type Base = { readonly label: string; readonly note?: ReactNode }

export function TextField({ label, note, ...rest }: Base & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId()
  return (
    <div className="fieldset">
      <label className="lbl" htmlFor={id}>
        {label}
      </label>
      <input className="text" id={id} autoComplete="off" spellCheck={false} {...rest} />
      {note !== undefined && <p className="note">{note}</p>}
    </div>
  )
}

type AreaProps = Base & {
  readonly value: string
  onValue(value: string): void
  readonly rows?: number
  readonly placeholder?: string
  readonly required?: boolean
}
export function TextArea({ label, note, value, onValue, rows = 3, ...rest }: AreaProps) {
  const id = useId()
  return (
    <div className="fieldset">
      <label className="lbl" htmlFor={id}>
        {label}
      </label>
      <textarea className="text" id={id} rows={rows} value={value} onChange={(event) => onValue(event.target.value)} {...rest} />
      {note !== undefined && <p className="note">{note}</p>}
    </div>
  )
}

type SearchProps = { readonly label: string; readonly value: string; onValue(value: string): void }
/** Words that a list is narrowed by while they are typed. */
export function SearchField({ label, value, onValue }: SearchProps) {
  return (
    <input
      type="search"
      className="text find"
      aria-label={label}
      placeholder={label}
      autoComplete="off"
      spellCheck={false}
      value={value}
      onChange={(event) => onValue(event.target.value)}
    />
  )
}

type SelectProps = Base & {
  readonly value: string
  onValue(value: string): void
  readonly options: readonly (readonly [value: string, text: string])[]
  readonly compact?: boolean
}
export function Select({ label, note, value, onValue, options, compact = false }: SelectProps) {
  const id = useId()
  return (
    <div className={compact ? 'fieldset compact' : 'fieldset'}>
      <label className={compact ? 'sr' : 'lbl'} htmlFor={id}>
        {label}
      </label>
      <select className="text" id={id} value={value} onChange={(event) => onValue(event.target.value)}>
        {options.map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
      {note !== undefined && <p className="note">{note}</p>}
    </div>
  )
}

export type Choice = { readonly id: string; readonly name: string; readonly note?: string }
type PickProps = Base & {
  readonly value: string
  onValue(id: string): void
  readonly choices: readonly Choice[]
  readonly placeholder?: string
  /** Reports text that matches no choice: a form with an optional name must not treat it as empty. `isPart`: it matches partially. */
  onUnknown?(isUnknown: boolean, isPart?: boolean): void
}

/** The id of the choice whose id or name was typed; empty if none matches. */
function namedIn(choices: readonly Choice[], typed: string): string {
  const lowered = typed.trim().toLowerCase()
  return choices.find(({ id, name }) => id.toLowerCase() === lowered || name.toLowerCase() === lowered)?.id ?? ''
}

/** A text field that offers matching choices. Text without a match stays as typed, because the choices might load later. */
export function Pick({ label, note, value, onValue, choices, placeholder, onUnknown }: PickProps) {
  const id = useId()
  const nameOf = (chosen: string): string => choices.find((choice) => choice.id === chosen)?.name ?? chosen
  /** The typed text and the choice it named. The text is stale once the form has another value. */
  const [typed, setTyped] = useState<{ readonly text: string; readonly named: string } | null>(null)
  const [isWanted, setWanted] = useState(false)
  const [at, setAt] = useState(0)
  const typedText = typed !== null && typed.named === value ? typed.text : null
  const lowered = (typedText ?? '').trim().toLowerCase()
  const fittingOf = (text: string): Choice[] =>
    choices.filter(({ id: key, name }) => `${name} ${key}`.toLowerCase().includes(text.trim().toLowerCase())).slice(0, 8)
  const fitting = fittingOf(lowered)
  const isOpen = isWanted && fitting.length > 0
  const take = (text: string): void => {
    const named = namedIn(choices, text)
    setTyped({ text, named })
    onValue(named)
    onUnknown?.(named === '' && text.trim() !== '', fittingOf(text).length > 0)
  }
  useEffect(() => {
    // oxlint-disable-next-line react/set-state-in-effect -- choices that load after the text was typed can contain its match
    if (typedText !== null && value === '' && namedIn(choices, typedText) !== '') take(typedText)
  })
  const choose = (choice: Choice): void => {
    onValue(choice.id)
    onUnknown?.(false)
    setTyped(null)
    setWanted(false)
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey) return
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      if (!isWanted) return setWanted(true)
      setAt((before) => (before + (event.key === 'ArrowDown' ? 1 : fitting.length - 1)) % Math.max(1, fitting.length))
    } else if (event.key === 'Enter' && isOpen) {
      event.preventDefault()
      choose(fitting[Math.min(at, fitting.length - 1)]!)
    } else if (event.key === 'Escape' && isOpen) {
      event.preventDefault()
      event.stopPropagation()
      setWanted(false)
    }
  }
  return (
    <div className="fieldset pick">
      <label className="lbl" htmlFor={id}>
        {label}
      </label>
      <input
        className="text"
        id={id}
        role="combobox"
        aria-expanded={isOpen}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={isOpen ? `${id}-${at}` : undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder={placeholder}
        value={typedText ?? nameOf(value)}
        onChange={(event) => {
          take(event.target.value)
          setWanted(true)
          setAt(0)
        }}
        onFocus={(event) => event.target.select()}
        onClick={() => setWanted(true)}
        onBlur={() => {
          setWanted(false)
          if (value !== '') setTyped(null)
        }}
        onKeyDown={onKeyDown}
      />
      <ul className="options-list" role="listbox" id={`${id}-list`} aria-label="Suggestions" hidden={!isOpen}>
        {isOpen &&
          fitting.map((choice, i) => (
            <li
              key={choice.id}
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === at}
              onPointerDown={(event) => {
                event.preventDefault()
                choose(choice)
              }}
            >
              <Who name={choice.name} sort={sortOf(choice.id)} />
              <span className="grow clip">{choice.name}</span>
              <span className="note mono clip">{choice.note ?? choice.id}</span>
            </li>
          ))}
      </ul>
      {note !== undefined && <p className="note">{note}</p>}
    </div>
  )
}

type RadiosProps = {
  readonly label: string
  readonly value: string
  onValue(value: string): void
  readonly options: readonly { readonly value: string; readonly label: string; readonly note?: string }[]
  readonly columns?: boolean
}
export function Radios({ label, value, onValue, options, columns = false }: RadiosProps) {
  const name = useId()
  return (
    <fieldset className={columns ? 'radios columns' : 'radios'}>
      <legend className="sr">{label}</legend>
      {options.map((option) => (
        <label key={option.value} className={value === option.value ? 'radio on' : 'radio'}>
          <input
            type="radio"
            name={name}
            className="over"
            value={option.value}
            aria-label={option.label}
            checked={value === option.value}
            onChange={() => onValue(option.value)}
          />
          <span className="dot" />
          <span>
            <b>{option.label}</b>
            {option.note !== undefined && <span>{option.note}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  )
}
