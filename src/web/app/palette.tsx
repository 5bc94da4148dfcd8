// The command palette: everything that can be done here, and items, tasks, agents and projects, by their words. It shows the keys, so that one
// learns them.
import { useId, useState, type KeyboardEvent } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { Icon } from '../parts/icon.tsx'
import { useCommandList, type Command } from './commands.ts'
import { useFound, type Found } from './found.ts'

const keyLabels: Readonly<Record<string, string>> = { ArrowDown: '↓', ArrowUp: '↑', Enter: '↵', Escape: 'Esc' }
export const keyWord = (key: string): string =>
  keyLabels[key] ?? (key.startsWith('Shift+') ? `⇧ ${key.slice(6).toUpperCase()}` : key.toUpperCase())

export function Keys({ command }: { readonly command: Command }) {
  const [key] = command.keys ?? []
  if (key === undefined) return null
  return (
    <span className="row keys-row" aria-hidden="true">
      {command.withModifier === true && <span className="kbd">Ctrl</span>}
      {key.split(' ').map((name) => (
        <span className="kbd" key={name}>
          {keyWord(name)}
        </span>
      ))}
    </span>
  )
}

const keyOf = (entry: Command | Found): string => ('id' in entry ? entry.id : entry.title)

const CommandLine = ({ command }: { readonly command: Command | Found }) => (
  <>
    <span className="grow clip">
      <bdi>{command.title}</bdi>
    </span>
    {'note' in command ? (
      <span className="note clip">
        <bdi>{command.note}</bdi>
      </span>
    ) : (
      <Keys command={command} />
    )}
  </>
)

export default function Palette({ close, help }: { close(): void; help(): void }) {
  const id = useId()
  const [text, setText] = useState('')
  const [picked, pick] = useState<string | null>(null)
  const seen = new Set<string>()
  const commands = useCommandList().filter(({ title }) => {
    const isNew = !seen.has(title) && title !== 'Commands'
    seen.add(title)
    return isNew && title.toLowerCase().includes(text.trim().toLowerCase())
  })
  const groups = ['This item', 'List', 'Go to', 'Page'] as const
  const { found, isLooking } = useFound(text)
  const listed: readonly (Command | Found)[] = [
    ...found,
    ...groups.flatMap((group) => commands.filter((command) => command.group === group)),
  ]
  // A deciding command is never preselected: the person must move to it first.
  const chosen = listed.find((entry) => keyOf(entry) === picked) ?? listed.find((entry) => !('decides' in entry && entry.decides === true))
  const run = (command: Command | Found | undefined): void => {
    if (!command) return
    close()
    if (command.title === 'Keyboard shortcuts') help()
    else setTimeout(command.run, 0)
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      const at = chosen === undefined ? -1 : listed.indexOf(chosen)
      const next = listed.at(event.key === 'ArrowUp' ? Math.max(at, 0) - 1 : (at + 1) % Math.max(1, listed.length))
      if (next) pick(keyOf(next))
    } else if (event.key === 'Enter') {
      event.preventDefault()
      run(chosen)
    }
  }
  return (
    <Dialog name="Command palette" close={close} bare atTop>
      <div className="field pal">
        <Icon name="search" />
        <input
          role="combobox"
          aria-label="Search commands"
          aria-expanded="true"
          aria-controls={`${id}-list`}
          aria-activedescendant={chosen ? `${id}-${listed.indexOf(chosen)}` : undefined}
          value={text}
          placeholder="Search commands, items, tasks, agents"
          onChange={(event) => {
            setText(event.target.value)
            pick(null)
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <ul className="cmds" role="listbox" id={`${id}-list`} aria-label="Commands">
        {listed.map((command, i) => (
          <li key={keyOf(command)} role="presentation">
            {command.group !== listed[i - 1]?.group && (
              <p className="capt" role="presentation">
                {command.group}
              </p>
            )}
            <div
              id={`${id}-${i}`}
              className="cmdrow"
              role="option"
              aria-selected={command === chosen}
              onPointerMove={() => pick(keyOf(command))}
              onClick={() => run(command)}
            >
              <CommandLine command={command} />
            </div>
          </li>
        ))}
      </ul>
      {listed.length === 0 && <p className="muted pad">{isLooking ? 'Searching…' : 'No results.'}</p>}
    </Dialog>
  )
}
