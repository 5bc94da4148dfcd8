// Fields of forms, each with its label: one for words, one for a choice, one for a person or an agent by their name.
import { useId, useState, type InputHTMLAttributes, type KeyboardEvent, type ReactNode } from 'react'
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

type SelectProps = Base & {
  readonly value: string
  onValue(value: string): void
  readonly options: readonly (readonly [value: string, words: string])[]
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
        {options.map(([key, words]) => (
          <option key={key} value={key}>
            {words}
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
}

/** What was typed, as the one that it names: by id, by name, or as the only one that fits. */
function namedIn(choices: readonly Choice[], typed: string): string {
  const words = typed.trim().toLowerCase()
  const exact = choices.find(({ id, name }) => id.toLowerCase() === words || name.toLowerCase() === words)
  return exact?.id ?? ''
}

/** A text field that offers those who fit. */
export function Pick({ label, note, value, onValue, choices, placeholder }: PickProps) {
  const id = useId()
  const nameOf = (chosen: string): string => choices.find((one) => one.id === chosen)?.name ?? chosen
  const [typed, setTyped] = useState<string | null>(null)
  const [at, setAt] = useState(0)
  const words = (typed ?? '').trim().toLowerCase()
  const fitting = choices.filter(({ id: key, name }) => `${name} ${key}`.toLowerCase().includes(words)).slice(0, 8)
  const isOpen = typed !== null && fitting.length > 0
  const choose = (one: Choice): void => {
    onValue(one.id)
    setTyped(null)
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey) return
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      if (typed === null) return setTyped('')
      setAt((before) => (before + (event.key === 'ArrowDown' ? 1 : fitting.length - 1)) % Math.max(1, fitting.length))
    } else if (event.key === 'Enter' && isOpen) {
      event.preventDefault()
      choose(fitting[Math.min(at, fitting.length - 1)]!)
    } else if (event.key === 'Escape' && isOpen) {
      event.preventDefault()
      event.stopPropagation()
      setTyped(null)
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
        value={typed ?? nameOf(value)}
        onChange={(event) => {
          setTyped(event.target.value)
          setAt(0)
          onValue(namedIn(choices, event.target.value))
        }}
        onFocus={(event) => event.target.select()}
        onClick={() => setTyped((before) => before ?? '')}
        onBlur={() => setTyped(null)}
        onKeyDown={onKeyDown}
      />
      <ul className="options-list" role="listbox" id={`${id}-list`} aria-label={label} hidden={!isOpen}>
        {isOpen &&
          fitting.map((one, i) => (
            <li
              key={one.id}
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === at}
              onPointerDown={(event) => {
                event.preventDefault()
                choose(one)
              }}
            >
              <Who name={one.name} sort={sortOf(one.id)} />
              <span className="grow clip">{one.name}</span>
              <span className="note mono clip">{one.note ?? one.id}</span>
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
  readonly options: readonly { readonly value: string; readonly words: string; readonly note?: string }[]
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
            aria-label={option.words}
            checked={value === option.value}
            onChange={() => onValue(option.value)}
          />
          <span className="dot" />
          <span>
            <b>{option.words}</b>
            {option.note !== undefined && <span>{option.note}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  )
}
