// The words of the identity protocol on the wire; it needs no codes beyond the kernel's.
import type { Fault } from '#kernel/declare/errors.ts'

export const codes: Readonly<Record<string, Fault>> = {}
