// Text encoding for PostgreSQL, whose text type cannot hold NUL. Index entries and counted prefixes contain NUL: 00 becomes 01 01, and 01
// becomes 01 02. The encoding keeps the order and is reversible.

// oxlint-disable-next-line no-control-regex
const LOW = /[\0\u{1}]/gu
// oxlint-disable-next-line no-control-regex
const HIGH = /\u{1}[\u{1}\u{2}]/gu

export const inDb = (text: string): string =>
  text.includes('\0') || text.includes('\u{1}') ? text.replace(LOW, (low) => (low === '\0' ? '\u{1}\u{1}' : '\u{1}\u{2}')) : text

export const fromDb = (text: string): string =>
  text.includes('\u{1}') ? text.replace(HIGH, (high) => (high === '\u{1}\u{1}' ? '\0' : '\u{1}')) : text

/** A B-tree entry has at most 2,704 bytes. */
export const ENTRY_BYTES_MAX = 2_600
export const isTooLong = (text: string): boolean => text.length * 3 > ENTRY_BYTES_MAX && Buffer.byteLength(inDb(text)) > ENTRY_BYTES_MAX
