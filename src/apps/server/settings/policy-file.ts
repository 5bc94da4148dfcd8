// The file with the policy of the installation: rules for calls of tools, written to that scope at the start.
import { decode } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { parse } from '#kernel/declare/schema.ts'
import { refuseUnknown, unknownFields } from '#kernel/declare/unknown-fields.ts'
import { checkGatePolicy, GatePolicy } from '#kernel/policy/gate-policy.ts'
import { valueAt } from '#kernel/policy/evaluate.ts'
import { ConfigError } from './config-error.ts'
import { bytesOfFile } from './operator-file.ts'

/** Refuses a file that could not be applied as written, with the place in it and the rule. */
export function readPolicy(path: string): GatePolicy {
  const wrong = (message: string): never => {
    throw new ConfigError(`${path}: ${message}`)
  }
  let text: Buffer
  try {
    text = bytesOfFile(path)
  } catch (error) {
    return wrong(`the file with the policy cannot be read: ${(error as Error).message}`)
  }
  let value: unknown
  try {
    value = decode(text)
    const policy = parse(GatePolicy, value)
    refuseUnknown(unknownFields(GatePolicy, value))
    checkGatePolicy(policy, '')
    return policy
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const field = error.details?.['field']
    const [, at] = /^rules\.(\d+)/.exec(typeof field === 'string' ? field : '') ?? []
    const id = at === undefined ? undefined : valueAt(value, `/rules/${at}/id`)
    const isNamed = typeof id !== 'string' || error.message.includes(`(rule ${id})`)
    return wrong(isNamed ? error.message : `${error.message} (rule ${id})`)
  }
}
