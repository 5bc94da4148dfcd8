// A switch that takes effect immediately, without a submit button.
import { useId } from 'react'

type Props = { readonly label: string; readonly checked: boolean; onChange(on: boolean): void; readonly note?: string }
export function Switch({ label, checked, onChange, note }: Props) {
  const id = useId()
  return (
    <div className="switch-row">
      <button
        type="button"
        role="switch"
        id={id}
        aria-checked={checked}
        aria-label={label}
        className="switch"
        onClick={() => onChange(!checked)}
      >
        <span className="thumb" />
      </button>
      <label htmlFor={id}>
        <span>{label}</span>
        {note !== undefined && <span className="note">{note}</span>}
      </label>
    </div>
  )
}
