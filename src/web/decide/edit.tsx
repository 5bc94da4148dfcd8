// Edit, then approve: each value in its own field, and the changed fields before sending. The agent gets the edited values, the receipt has both.
import { useId } from 'react'
import { changesBetween, ChangeTable, everyLeaf, inOrder, isObject, typeWord, valueText } from '../item/arguments.tsx'
import { plural, Said } from '../parts/text.tsx'
import { useDraft } from '../server/drafts.ts'
import type { Item } from '../server/types.ts'
import { brokenEdit, useRules } from './rules.ts'

/**
 * The editable part: the arguments, if the agent gave a schema for them and one person decides; or the state that a checkpoint shows.
 */
export function editableOf(item: Item): { readonly value: unknown; readonly kind: 'details' | 'state' } | null {
  const { details, details_schema } = item.card.payload
  if (item.kind === 'request' && item.quorum === null && details !== undefined && details_schema !== undefined)
    return { value: inOrder(details, item.order), kind: 'details' }
  const { state } = (details ?? {}) as { state?: unknown }
  return item.kind !== 'request' && typeof state === 'object' && state !== null ? { value: state, kind: 'state' } : null
}

type Edits = Readonly<Record<string, string>>
/** A text parsed as the type of the former value; undefined if it does not parse. */
function parseLike(text: string, before: unknown): unknown {
  if (typeof before === 'string') return text
  try {
    const value: unknown = JSON.parse(text)
    return before === null || typeof value === typeof before ? value : undefined
  } catch {
    return undefined
  }
}
function withEdits(value: unknown, edits: Edits, path = ''): unknown {
  const at = (name: string): string => (path === '' ? name : `${path}.${name}`)
  if (Array.isArray(value) && value.length > 0) return value.map((entry, i) => withEdits(entry, edits, at(String(i + 1))))
  if (typeof value === 'object' && value !== null && Object.keys(value).length > 0 && !Array.isArray(value))
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withEdits(inner, edits, at(name))]))
  const edit = edits[path]
  return edit === undefined ? value : (parseLike(edit, value) ?? value)
}

/** The first value that the schema of the agent does not allow. */
function problemIn(rules: ReturnType<typeof useRules>, { card }: Item, value: unknown): ReturnType<typeof brokenEdit> | undefined {
  const { details_schema } = card.payload
  const problem = details_schema === undefined ? null : (rules?.editProblem(details_schema, value) ?? null)
  return problem === null ? undefined : brokenEdit(problem)
}

export type Edited = {
  readonly value: unknown
  readonly isChanged: boolean
  readonly problem: string | undefined
  clear(): void
  readonly form: React.ReactNode
}
export const draftOfEdits = (item: Item): string => `edit/${item.request_id}/${item.digest}`

type TableProps = {
  readonly leaves: ReturnType<typeof everyLeaf>
  readonly edits: Edits
  readonly invalid: string | undefined
  setEdits(edits: Edits): void
}
function EditTable({ leaves, edits, invalid, setEdits }: TableProps) {
  const id = useId()
  return (
    <table className="args edit">
      <caption className="sr">Values to edit</caption>
      <tbody>
        {leaves.map(({ path, value }, i) => (
          <tr key={path}>
            <th scope="row">
              <label htmlFor={`${id}-${i}`}>
                <bdi>{path}</bdi>
              </label>
            </th>
            <td>
              <input
                id={`${id}-${i}`}
                className="text mono"
                spellCheck={false}
                autoComplete="off"
                value={edits[path] ?? valueText(value)}
                aria-invalid={invalid === path || undefined}
                onChange={(event) => setEdits({ ...edits, [path]: event.target.value })}
              />
              <span className="t">{typeWord(value)}</span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

export function useEdits(item: Item): Edited | null {
  const [edits, setEdits, clear] = useDraft<Edits>(draftOfEdits(item), {})
  const rules = useRules()
  const editable = editableOf(item)
  if (editable === null) return null
  const leaves = everyLeaf(editable.value)
  const wrong = leaves.find(({ path, value }) => edits[path] !== undefined && parseLike(edits[path], value) === undefined)
  const value = withEdits(editable.value, edits)
  const changes = changesBetween(editable.value, value)
  const problem =
    wrong === undefined ? problemIn(rules, item, value) : { path: wrong.path, message: `It must stay a ${typeWord(wrong.value)}.` }
  const sentence = problem === undefined ? undefined : problem.path === '' ? problem.message : `${problem.path}: ${problem.message}`
  const form = (
    <section className="exact editing" aria-label="Edit">
      <header>
        Edit
        <span className="grow" />
        <span className="note">
          {editable.kind === 'details'
            ? 'Only values that the agent’s schema allows are accepted'
            : 'The agent continues with the state as you edit it'}
        </span>
        <button type="button" className="btn ghost sm" onClick={clear}>
          Reset
        </button>
      </header>
      <EditTable leaves={leaves} edits={edits} setEdits={setEdits} invalid={problem?.path} />
      <div className="diff-of-edits" data-testid="edit-diff">
        <p className="note">
          {changes.length === 0
            ? 'Nothing is changed yet.'
            : `${plural(changes.length, 'change')}. The agent gets the edited values, and the receipt holds both.`}
        </p>
        {changes.length > 0 && <ChangeTable changes={changes} />}
        {sentence !== undefined && (
          <p className="refused" role="alert">
            <Said>{sentence}</Said>
          </p>
        )}
      </div>
    </section>
  )
  return { value, isChanged: changes.length > 0, problem: sentence, clear, form }
}

/** A JSON Merge Patch (RFC 7396). Values are edited in place: no field is added or removed. */
export function patchOf(before: unknown, after: unknown): unknown {
  if (!isObject(before) || !isObject(after)) return after
  const changed = Object.entries(after).filter(([name, value]) => JSON.stringify(before[name]) !== JSON.stringify(value))
  return Object.fromEntries(changed.map(([name, value]) => [name, patchOf(before[name], value)]))
}
