// The test for a timer's call that came too late to matter.
import type { Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'

/** The world has moved on. Any other refusal may pass, and a timer that is dropped is never missed by anybody. */
export const isOvertaken = ({ codes }: Kernel, { code }: Refusal): boolean =>
  code === 'PRECONDITION_FAILED' || codes[code] === 'missing' || codes[code] === 'gone'
