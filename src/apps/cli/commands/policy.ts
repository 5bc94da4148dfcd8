// `policy test <file>` rehearses a policy; `policy suggest` shows the rules that answers have earned, and publishes one of them.
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import type { Input, Output } from '#sdk/client.ts'
import { derivedSpec, inputOf } from '../derive/from-operation.ts'
import { flag, jsonFrom } from '../derive/flags.ts'
import { readInput } from '../input/read-input.ts'
import { escapeControl } from '../output/safe-text.ts'
import { show, writeJson } from '../output/render.ts'
import { usage } from '../exit-codes.ts'
import type { Context, Spec } from '../derive/command.ts'

async function policyIn({ io }: Context, path: string): Promise<unknown> {
  const text = (await readInput(io, path)).toString()
  try {
    return jsonFrom(text)
  } catch (error) {
    throw usage(`${path} ${(error as Error).message}`)
  }
}

export function policyTestSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const help = 'the policy to try: a file with version, default and rules as JSON, - for standard input, or the JSON itself'
  const spec: Spec = {
    ...derived,
    positionals: [{ ...flag('gate', 'policy', help, { kind: 'json' }), path: ['gate'], required: true }],
    flags: derived.flags.filter(({ path }) => path?.[0] !== 'gate'),
    examples: ['countersign policy test policy.json --since P30D', 'countersign policy test policy.json --installation'],
    async run(context, given) {
      const policy = given.get('gate') // what is no JSON is the name of a file
      const read = typeof policy === 'string' ? new Map(given).set('gate', await policyIn(context, policy)) : given
      const input = (await inputOf(context, op, spec, read)) as Input<'gate/policy.test'>
      const rehearsal = await (await context.remote()).call('gate/policy.test', input)
      if (context.json) return writeJson(context, rehearsal)
      context.io.out.write(`${rehearsal.text}\n`)
    },
  }
  return spec
}

type Suggestion = Output<'gate/policy.suggest'>['items'][number]

/** Adds the rule to the current policy, before the rule that asks today. */
async function publish(context: Context, { rule, before }: Suggestion, scope: Input<'execution/policy.get'>): Promise<void> {
  const remote = await context.remote()
  const { policy } = await remote.call('execution/policy.get', scope)
  const { rules, ...gate } = policy.gate ?? { version: 1, default: 'ask', rules: [] }
  const at = rules.findIndex(({ id }) => id === before)
  const next = { ...gate, rules: rules.toSpliced(at === -1 ? rules.length : at, 0, rule) }
  const answer = await remote.call('execution/policy.set', { ...scope, gate: next })
  if (context.json) return writeJson(context, answer)
  context.io.out.write(`rule ${escapeControl(rule.id)} counts from now on; one in 20 of its calls is still asked\n`)
}

export function policySuggestSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  return {
    ...derived,
    flags: [...derived.flags, flag('publish', 'rule', 'put this suggested rule into the policy')],
    examples: ['countersign policy suggest --installation', 'countersign policy suggest --installation --publish earned-1a2b3c4d'],
    async run(context, given) {
      const input = (await inputOf(context, op, derived, given)) as Input<'gate/policy.suggest'>
      const { project_id, installation } = input
      const scope = { ...(project_id === undefined ? {} : { project_id }), ...(installation === undefined ? {} : { installation }) }
      const answer = await (await context.remote()).call('gate/policy.suggest', input)
      const wanted = given.get('publish') as string | undefined
      if (wanted !== undefined) {
        const found = answer.items.find(({ rule }) => rule.id === wanted)
        if (found === undefined) throw usage(`no suggestion has the id ${JSON.stringify(wanted)}`, 'run it without --publish to see them')
        return publish(context, found, scope)
      }
      if (context.json || answer.items.length === 0) return show(context, op.name, answer)
      for (const { rule, text } of answer.items)
        context.io.out.write(`${escapeControl(rule.id)}  ${text}\n  ${escapeControl(JSON.stringify(rule))}\n`)
    },
  }
}
