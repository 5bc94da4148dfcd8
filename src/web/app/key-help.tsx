// The list of keyboard shortcuts, and the switch for single keys.
import { Dialog } from '../parts/dialog.tsx'
import { Switch } from '../parts/switch.tsx'
import { singleKeys, useSingleKeys } from './commands.ts'

const keys: readonly (readonly [string, string])[] = [
  ['J K', 'next, previous'],
  ['⇧J ⇧K', 'extend selection'],
  ['↵', 'open the item'],
  ['X', 'select'],
  ['A', 'approve what is open or selected'],
  ['R D', 'reject or decline'],
  ['E', 'edit'],
  ['1 – 9', 'choose an option'],
  ['P', 'to the answer field'],
  ['Q', 'ask back'],
  ['S', 'snooze'],
  ['M', 'reassign'],
  ['C', 'comment, changes'],
  ['Z', 'undo (5 s)'],
  ['N B', 'next, previous file'],
  ['V', 'file viewed'],
  ['/', 'search'],
  ['G I', 'go to inbox'],
  ['G T', 'go to tasks'],
  ['G P', 'go to projects'],
  ['↵', 'approve, in the field of a phrase'],
  ['Ctrl ↵', 'send, from a field'],
  ['Ctrl K', 'commands'],
  ['Esc', 'close, change nothing'],
]

export default function KeyHelp({ close }: { close(): void }) {
  const isOn = useSingleKeys()
  return (
    <Dialog
      name="Keyboard shortcuts"
      close={close}
      footer={
        <>
          <Switch label="Single keys" checked={isOn} onChange={singleKeys.set} />
          <span className="grow" />
          <button type="button" className="btn" onClick={close}>
            Close
          </button>
        </>
      }
    >
      <dl className="sheet">
        {keys.map(([names, label]) => (
          <div className="row" key={label}>
            <dt className="row">
              {names.split(' ').map((name) => (
                <span className="kbd" key={name}>
                  {name}
                </span>
              ))}
            </dt>
            <dd className="soft">{label}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
