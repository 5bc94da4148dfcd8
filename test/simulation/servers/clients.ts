// Clients of several servers: each call goes to any of them, and again to another one when its answer is lost. Law: an answer is as new as
// everything that anybody had been told before the question was sent; what was acknowledged is on the disk, once; what was refused is not.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Random } from '../random.ts'
import type { Fail, Record as FactRecord, SeenFact } from '../record.ts'
import { SCOPE } from './protocol.ts'
import type { Server } from './server.ts'

const alice: Actor = { id: 'user_alice', kind: 'human', projects: new Map([[SCOPE, 'owner' as const]]) }
const notes = ['a', 'b', 'c']
const ATTEMPTS_MAX = 12

type Call = {
  readonly by: string
  readonly op: string
  readonly input: any
  inFlight: number
  attempts: number
  facts: number
  /** Attempts of which nobody knows what came of them. */
  doubts: number
  answer: any
  done: boolean
}

export type ServerClients = {
  start(): string
  retryOne(): boolean
  waiting(): number
  inFlight(): number
  /** The server ended: nobody answers what was under way there. */
  onGone(server: Server): void
  onFact(fact: SeenFact): void
  settle(): void
  /** Everybody is asked for everything, and says the same. */
  askAll(): void
}

export type ServerClientOptions = {
  readonly random: Random
  readonly servers: () => readonly Server[]
  readonly record: () => FactRecord
  readonly isFaulty: () => boolean
  readonly happened: (what: string) => void
  readonly fail: Fail
}

export function createServerClients(options: ServerClientOptions): ServerClients {
  const { random, servers, record, isFaulty, happened, fail } = options
  let calls: Call[] = []
  let count = 0
  const waiting: Call[] = []
  const under = new Map<Server, Set<() => void>>()
  /** The newest state of each note that anybody was told of. */
  const told = new Map<string, number>()
  const serving = (): Server[] => servers().filter((server) => server.isServing())

  function plan(): Pick<Call, 'op' | 'input'> {
    const id = random.pick(notes)
    const by = `~${count}~`
    return random.weighted<Pick<Call, 'op' | 'input'>>([
      [6, { op: 'note.write', input: { id, by } }],
      [10, { op: 'note.get', input: { id } }],
      [2, { op: 'note.remind', input: { id, by, ms: random.pick([1, 500, 3_000]) } }],
      [2, { op: 'note.post', input: { id, by } }],
      [3, { op: 'act.begin', input: { by } }],
    ])
  }

  function begin(made: Pick<Call, 'op' | 'input'>): Call {
    const call: Call = { ...made, by: `~${count++}~`, inFlight: 0, attempts: 0, facts: 0, doubts: 0, answer: null, done: false }
    calls.push(call)
    return call
  }

  function send(call: Call, server: Server): void {
    const floor = told.get(call.input.id) ?? 0
    const isRead = call.op === 'note.get'
    call.attempts++
    call.inFlight++
    const gone = (): void => {
      call.inFlight--
      call.doubts++
      again(call)
    }
    const there = under.get(server) ?? new Set()
    under.set(server, there.add(gone))
    const ended = (judge: () => void): void => {
      if (!there.delete(gone)) return
      call.inFlight--
      judge()
    }
    server.kernel.call(`sim/${call.op}`, call.input, alice, isRead ? {} : { key: call.by }).then(
      (output: any) => ended(() => accept(call, output, floor, server)),
      (error: unknown) => ended(() => refuse(call, error)),
    )
  }

  function again(call: Call): void {
    if (call.attempts < ATTEMPTS_MAX || !isFaulty()) waiting.push(call)
    else call.done = true
  }

  function accept(call: Call, output: any, floor: number, { name }: Server): void {
    happened(`${call.op} ok`)
    const isRead = call.op === 'note.get'
    if (!isRead && call.facts !== 1) fail(`${call.op} ${call.by} was acknowledged by ${name} with ${call.facts} facts on the disk`)
    if (output.note) judgeNote(call, output.note, floor, name)
    // An effect that is still under way elsewhere is answered as it stands when it has been waited for long enough.
    const isOpen = output.outcome === 'open'
    if (!isRead && !isOpen) {
      const text = canonical(output)
      if (call.answer !== null && call.answer !== text) fail(`${call.op} ${call.by} got two answers under one key: ${call.answer}, ${text}`)
      call.answer = text
    }
    if (isFaulty() && random.chance(0.08)) {
      happened('answer lost')
      call.doubts++
      return again(call)
    }
    if (isOpen) return again(call)
    call.done = true
  }

  function judgeNote(call: Call, note: any, floor: number, name: string): void {
    // The answer to a repeated call is the one that was given first.
    if (call.op === 'note.get' && note.n < floor)
      fail(`${name} shows ${note.id} as it was at ${note.n}, and somebody had been told of ${floor}`)
    if (note.n > 0 && !record().held(`sim.note/${note.id}`, canonical(note))) fail(`${name} shows a ${note.id} that never was on the disk`)
    told.set(note.id, Math.max(told.get(note.id) ?? 0, note.n))
  }

  function refuse(call: Call, error: unknown): void {
    const code = error instanceof Refusal ? error.code : 'INTERNAL'
    const isUnknown = error instanceof Refusal && error.details?.['outcome'] === 'unknown'
    happened(`${call.op} ${code}${isUnknown ? ', unknown' : ''}`)
    if (code === 'INTERNAL' && !(error instanceof Error && error.message === 'the statement was refused'))
      fail(`${call.op} ${call.by} met a bug: ${error instanceof Error ? error.stack : String(error)}`)
    if (isUnknown) call.doubts++
    // The outcome of an effect may be refused for a while after its intent was taken.
    if (call.op === 'act.begin' && call.facts > 0) call.doubts++
    again(call)
  }

  return {
    start() {
      const all = serving()
      if (all.length === 0) return 'nobody is there'
      const server = random.pick(all)
      const call = begin(plan())
      send(call, server)
      // The same call twice at once, as a client behind two proxies does.
      if (call.op !== 'note.get' && isFaulty() && random.chance(0.1)) {
        happened('duplicate')
        send(call, random.pick(all))
      }
      return `${call.op} ${JSON.stringify(call.input)} to ${server.name}`
    },
    retryOne() {
      const all = serving()
      if (all.length === 0 || waiting.length === 0) return false
      const [call] = waiting.splice(isFaulty() ? random.below(waiting.length) : 0, 1) as [Call]
      if (!call.done || call.op !== 'note.get') send(call, random.pick(all))
      return true
    },
    waiting: () => waiting.length,
    inFlight: () => calls.reduce((sum, { inFlight }) => sum + inFlight, 0),
    onGone(server) {
      const all = [...(under.get(server) ?? [])]
      under.get(server)?.clear()
      for (const gone of all) gone()
    },
    onFact({ line, images }) {
      if (!['note.written', 'note.reminded', 'note.posting', 'act.begun'].includes(line.action.slice('sim/'.length))) return
      const call = calls.find(({ by }) => by === images[0]!.after.by)
      if (!call) return fail(`${line.action} by ${images[0]!.after.by}: nobody has such a call under way`)
      if (++call.facts > 1) fail(`${call.op} ${call.by} happened ${call.facts} times`)
    },
    settle() {
      for (const { op, by, facts, answer, doubts, attempts, inFlight } of calls)
        if (facts > 0 && answer === null && doubts === 0 && attempts > 0 && inFlight === 0)
          fail(`${op} ${by} was refused and happened all the same`)
      calls = calls.filter(({ done, inFlight, op }) => !done || inFlight > 0 || op !== 'note.get')
    },
    askAll() {
      for (const server of serving()) for (const id of notes) send(begin({ op: 'note.get', input: { id } }), server)
    },
  }
}
