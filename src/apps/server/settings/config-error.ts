// A setting that cannot be understood, and the setting as it was given.

export class ConfigError extends Error {
  override name = 'ConfigError'
}

/** A value with the name of its option, for error messages. */
export type Named = { readonly value: string; readonly name: string }
