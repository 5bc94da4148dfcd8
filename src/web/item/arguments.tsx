// The exact arguments: every field at any depth, unchanged. No markup, no live links, no omissions.
import { Said } from '../parts/text.tsx'

export type Leaf = { readonly path: string; readonly value: unknown }
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isPlain = (value: unknown): boolean => typeof value !== 'object' || value === null

/** Every field with its path. A list of plain values stays together; empty values are shown as empty. */
export function leavesOf(value: unknown, path = ''): Leaf[] {
  const at = (name: string): string => (path === '' ? name : `${path}.${name}`)
  if (Array.isArray(value)) {
    if (value.every(isPlain)) return [{ path, value }]
    return value.flatMap((entry, i) => leavesOf(entry, at(String(i + 1))))
  }
  if (!isObject(value)) return [{ path, value }]
  const entries = Object.entries(value)
  return entries.length === 0 ? [{ path, value }] : entries.flatMap(([name, inner]) => leavesOf(inner, at(name)))
}
/** As people read them: a list of like things stays together, as a table. */
function shownLeaves(value: unknown, path = ''): Leaf[] {
  if (isTable(value)) return [{ path, value }]
  if (!isObject(value) || Object.keys(value).length === 0) return leavesOf(value, path)
  return Object.entries(value).flatMap(([name, inner]) => shownLeaves(inner, path === '' ? name : `${path}.${name}`))
}
/** The same value with its names in the order of the agent; places in lists do not count. */
export function inOrder(value: unknown, order: readonly string[] | null, path = ''): unknown {
  if (order === null) return value
  if (Array.isArray(value)) return value.map((entry) => inOrder(entry, order, path))
  if (!isObject(value)) return value
  const at = (name: string): string => `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
  const place = (name: string): number => (order.indexOf(at(name)) + order.length + 1) % (order.length + 1)
  const names = Object.keys(value).toSorted((one, other) => place(one) - place(other))
  return Object.fromEntries(names.map((name) => [name, inOrder(value[name], order, at(name))]))
}
const COLUMNS_MAX = 6
const isTable = (value: unknown): value is readonly Record<string, unknown>[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.every((entry) => isObject(entry) && Object.values(entry).every(isPlain) && Object.keys(entry).length > 0) &&
  columnsOf(value as Record<string, unknown>[]).length <= COLUMNS_MAX
const columnsOf = (rows: readonly Record<string, unknown>[]): string[] => [...new Set(rows.flatMap((row) => Object.keys(row)))]

/** Down to each value of a list, as differences are counted. */
export function everyLeaf(value: unknown): Leaf[] {
  return leavesOf(value).flatMap(({ path, value: held }) =>
    Array.isArray(held) && held.length > 0
      ? held.map((entry, i) => ({ path: `${path}.${i + 1}`, value: entry as unknown }))
      : [{ path, value: held }],
  )
}

export function typeWord(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return value.length === 0 ? 'empty list' : `list of ${value.length}`
  if (isObject(value)) return 'empty object'
  return typeof value === 'string' ? 'text' : typeof value
}
export const valueText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

const MONEY = /(?:^|[._])(?:amount|price|total|subtotal|net|gross|sum|cost|fee|balance)$/i
/** The currency of an amount: the `currency` field of the same object. */
function currencyOf(path: string, value: unknown, beside: unknown): string | null {
  const { currency } = (isObject(beside) ? beside : {}) as { currency?: unknown }
  const isAmount = typeof value === 'number' || (typeof value === 'string' && /^-?[\d.,]+$/.test(value))
  return isAmount && MONEY.test(path) && typeof currency === 'string' && /^[A-Za-z]{3}$/.test(currency) ? currency : null
}
function objectAt(whole: unknown, path: string): unknown {
  const names = path.split('.').slice(0, -1)
  return names.reduce<unknown>((at, name) => (isObject(at) ? at[name] : undefined), whole)
}
function Money({ path, value, beside }: { readonly path: string; readonly value: unknown; readonly beside: unknown }) {
  const currency = currencyOf(path, value, beside)
  return currency === null ? null : <span className="muted"> {currency}</span>
}

function Rows({ rows, beside }: { readonly rows: readonly Record<string, unknown>[]; readonly beside: unknown }) {
  const columns = columnsOf(rows)
  return (
    <table className="rows">
      <thead>
        <tr>
          {columns.map((name) => (
            <th scope="col" key={name}>
              <bdi>{name}</bdi>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, i) => (
          <tr key={i}>
            {columns.map((name) => (
              <td key={name}>
                {Object.hasOwn(row, name) && (
                  <>
                    <Value value={row[name]} />
                    <Money path={name} value={row[name]} beside={'currency' in row ? row : beside} />
                  </>
                )}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Value({ value }: { readonly value: unknown }) {
  if (Array.isArray(value) && value.length > 0)
    return (
      <ol>
        {value.map((entry, i) => (
          <li key={i} data-n={i + 1}>
            <Said>{valueText(entry)}</Said>
          </li>
        ))}
      </ol>
    )
  if (value === '') return <span className="muted">(empty)</span>
  return <Said>{valueText(value)}</Said>
}

const LEADING = ['tool', 'target', 'command', 'amount']
export function Arguments({ of }: { readonly of: unknown }) {
  const leaves = shownLeaves(of)
  return (
    <table className="args" data-testid="item-args">
      <caption className="sr">Arguments</caption>
      <tbody>
        {leaves.map(({ path, value }, i) => (
          <tr key={`${path} ${i}`} className={LEADING.includes(path) ? 'lead' : undefined}>
            <th scope="row">
              <bdi>{path === '' ? 'value' : path}</bdi>
            </th>
            <td>
              {!LEADING.includes(path) && <span className="t">{typeWord(value)}</span>}
              {isTable(value) ? (
                <Rows rows={value} beside={objectAt(of, path)} />
              ) : (
                <>
                  <Value value={value} />
                  <Money path={path} value={value} beside={objectAt(of, path)} />
                </>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

export type Change = { readonly path: string; readonly before: unknown; readonly after: unknown }
/** The fields that differ; undefined stands for an absent value. */
export function changesBetween(before: unknown, after: unknown): Change[] {
  // A value that was absent has no field.
  const within = (value: unknown): Leaf[] => everyLeaf(value).filter(({ path }) => path !== '')
  const [old, fresh] = [within(before), within(after)]
  const paths = [...new Set([...old, ...fresh].map(({ path }) => path))]
  const valueAt = (leaves: readonly Leaf[], path: string): unknown => leaves.find((leaf) => leaf.path === path)?.value
  return paths
    .map((path) => ({ path, before: valueAt(old, path), after: valueAt(fresh, path) }))
    .filter((change) => JSON.stringify(change.before) !== JSON.stringify(change.after))
}

export function ChangeTable({ changes, testId }: { readonly changes: readonly Change[]; readonly testId?: string }) {
  return (
    <table className="args changes" data-testid={testId}>
      <caption className="sr">What changed</caption>
      <tbody>
        {changes.map(({ path, before, after }) => (
          <tr key={path} className="edited">
            <th scope="row">
              <bdi>{path === '' ? 'value' : path}</bdi>
            </th>
            <td>
              {before !== undefined && (
                <del>
                  <Said>{valueText(before)}</Said>
                </del>
              )}{' '}
              {after !== undefined && (
                <ins>
                  <Said>{valueText(after)}</Said>
                </ins>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
