// The rules of an answer, checked during typing by the server's code, each with a message.
import { useEffect, useState } from 'react'
import type { FieldProblem } from '#sdk/answers.ts'
import type { Payload } from '../server/types.ts'

type Rules = typeof import('#sdk/answers.ts')
let loaded: Rules | null = null
/** null: not loaded yet. The server checks in any case. */
export function useRules(): Rules | null {
  const [rules, setRules] = useState(loaded)
  useEffect(() => {
    if (loaded === null)
      import('#sdk/answers.ts').then(
        (found) => setRules((loaded = found)),
        () => undefined,
      )
  }, [])
  return rules
}

const number = (value: number): string => value.toLocaleString('en', { maximumFractionDigits: 20 })
function numberRule(min: number | undefined, max: number | undefined): string {
  if (min !== undefined && max !== undefined) return `Enter a number from ${number(min)} to ${number(max)}.`
  if (max !== undefined) return `Enter a number up to ${number(max)}.`
  return min === undefined ? 'Enter a number, such as 42 or -1.5.' : `Enter a number of at least ${number(min)}.`
}

/** The rule that the text breaks, such as "Enter a number up to 100,000."; undefined: none. */
export function brokenRule(rules: Rules | null, payload: Payload, value: unknown): string | undefined {
  const problem = rules?.answerProblem(payload, value) ?? null
  if (problem === null) return undefined
  const { input_type = 'text', validation: { min, max, pattern } = {} } = payload
  if (problem.startsWith('does not match')) return `Enter a value that matches ${pattern}.`
  if (input_type === 'number') return numberRule(min, max)
  if (input_type === 'email' && problem.includes('e-mail')) return 'Enter an e-mail address, such as name@example.com.'
  if (input_type === 'url' && problem.includes('begins with')) return 'Enter an address that begins with https:// or http://.'
  return problem.startsWith('must have ') ? `Enter ${problem.slice('must have '.length)}.` : `The answer ${problem}.`
}

const listText = (values: unknown): string =>
  Array.isArray(values) ? values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))).join(', ') : String(values)
const boundText = (limit: unknown): string => (typeof limit === 'number' ? number(limit) : listText(limit))
const edits: Readonly<Record<string, (limit: unknown) => string>> = {
  maximum: (limit) => `Enter a number up to ${boundText(limit)}.`,
  minimum: (limit) => `Enter a number of at least ${boundText(limit)}.`,
  exclusiveMaximum: (limit) => `Enter a number below ${boundText(limit)}.`,
  exclusiveMinimum: (limit) => `Enter a number above ${boundText(limit)}.`,
  multipleOf: (limit) => `Enter a multiple of ${boundText(limit)}.`,
  maxLength: (limit) => `Enter at most ${boundText(limit)} characters.`,
  minLength: (limit) => `Enter at least ${boundText(limit)} characters.`,
  enum: (limit) => `Enter one of: ${boundText(limit)}.`,
}
/** Such as "replicas: Enter a number up to 12."; its path counts places from one, as the page does. */
export function brokenEdit({ path, rule, limit, message }: FieldProblem): { readonly path: string; readonly message: string } {
  const label = path.map((part) => (/^\d+$/.test(part) ? String(Number(part) + 1) : part)).join('.')
  return { path: label, message: edits[rule]?.(limit) ?? `This ${message}.` }
}
