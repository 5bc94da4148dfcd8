// Messages of errors: the server's message if there is one, and always the next step.
import { CountersignError } from '#sdk/index.ts'

/** The server returned a receipt that its published keys do not verify. */
export class Unverified extends Error {
  override name = 'Unverified'
}

export const codeOf = (error: unknown): string => (error instanceof CountersignError ? error.code : 'INTERNAL')

const sentence = (message: string): string => {
  const begun = message.charAt(0).toUpperCase() + message.slice(1)
  return /[.?]$/.test(begun) ? begun : `${begun}.`
}

/** Codes whose server message already has the next step. */
const whole = new Set(['OTHER_PERSON', 'PROOF_REQUIRED'])
const next: Readonly<Record<number, string>> = {
  401: 'Sign in again; your text is kept.',
  403: 'Ask an owner of the project if you should be able to.',
  404: 'It may have been removed, or you have no access.',
  408: 'Its deadline has passed. Open it again.',
  409: 'Read its current version, then decide.',
  410: 'It has ended. Open it again.',
  413: 'Send something smaller.',
  422: 'Change the named field and try again.',
  429: 'Wait a moment and try again.',
  503: 'Try again in a moment.',
}

export function messageOf(error: unknown): string {
  if (error instanceof Unverified)
    return `The receipt that came back does not verify: ${error.message}. Do not take this as decided; tell an owner of the server.`
  if (!(error instanceof CountersignError)) return 'This page has failed. Reload it and try again.'
  if (error.code === 'NETWORK' || error.code === 'TIMEOUT')
    return 'The server did not answer. It is not known whether anything changed. Try again.'
  const reason = sentence(error.message)
  const advice = error.status === null || whole.has(error.code) ? undefined : next[error.status]
  return advice === undefined ? reason : `${reason} ${advice}`
}
