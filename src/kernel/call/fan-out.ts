// The fan-out: a command that calls others instead of deciding itself. A bulk command makes one call per item: each is checked, decided and
// committed alone.
import type { Caller, CallOptions, Kernel } from '../types.ts'
import { canonical } from '../log/canonical-json.ts'
import { Refusal } from '../declare/errors.ts'
import { SYSTEM, type Actor } from '../declare/access.ts'
import type { Notary } from '../ports/notary.ts'
import type { Command, Came, Fan } from '../declare/operation.ts'
import { parse, type Static, type TSchema } from '../declare/schema.ts'
import { replyIdOf } from './idempotency.ts'

type SetByFan = 'kind' | 'requires' | 'audit' | 'load' | 'decide' | 'fan'
/** `each`: the calls; `gather`: their answers and refusals as one answer, in the same order. */
export const fan = <I extends TSchema, O extends TSchema, N extends string>({
  each,
  gather,
  ...op
}: Omit<Command<I, O, null, N>, SetByFan> & Fan<Static<I>, Static<O>>): Command<I, O, null, N> => ({
  kind: 'command',
  ...op,
  requires: [],
  audit: null,
  load: () => Promise.resolve(null),
  decide() {
    throw new Error(`${op.name} is a fan: it only calls other commands`)
  },
  fan: { each, gather },
})

type Parts = Pick<Kernel, 'call' | 'check'> & { readonly notary: Notary }

/** As the same caller, one after the other; a refusal is an answer and does not stop the rest. */
export async function callEach(
  kernel: Parts,
  name: string,
  op: Command,
  raw: unknown,
  caller: Caller,
  { key, signal }: CallOptions,
): Promise<unknown> {
  await kernel.check(name, raw, caller)
  const { each, gather } = op.fan!
  const input: unknown = parse(op.input, raw)
  if (key !== undefined) await claim(kernel, name, input, typeof caller === 'function' ? await caller() : caller, key)
  const results: Came[] = []
  for (const [i, item] of each(input).entries()) {
    const itemOptions = { ...(key === undefined ? {} : { key: `${key}/${i}` }), ...(signal ? { signal } : {}) }
    results.push(await kernel.call(item.call, item.input, caller, itemOptions).then(outputOf, refusalOf))
  }
  return gather(input, results)
}

/** Each call has its own key. Only this digest reveals that the key of the whole was used before for other calls. The input can be secret. */
async function claim({ call, notary }: Parts, name: string, asked: unknown, actor: Actor, key: string): Promise<void> {
  const replyId = replyIdOf(actor, key)
  await call('kernel/fan.begin', { asked: notary.commit(`${name} ${canonical(asked)}`) }, SYSTEM, { key: replyId })
}

const outputOf = (output: unknown): Came => ({ output })
function refusalOf(error: unknown): Came {
  if (error instanceof Refusal) return { refusal: error }
  throw error
}
