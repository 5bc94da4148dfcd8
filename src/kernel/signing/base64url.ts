// Canonical base64url: unused bits are zero. It also runs in browsers.

const ALPHABET = /^[A-Za-z0-9_-]*$/
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** null: the text is not base64url, or not in its canonical form. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> | null {
  if (!ALPHABET.test(text) || text.length % 4 === 1) return null
  const unused = text.length % 4 === 2 ? 15 : text.length % 4 === 3 ? 3 : 0
  if ((DIGITS.indexOf(text.at(-1) ?? 'A') & unused) !== 0) return null
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(binary, (character) => character.charCodeAt(0))
}

export const base64urlOf = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
