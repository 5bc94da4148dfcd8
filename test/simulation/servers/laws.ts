// Laws of several servers on one store: a chain without gaps, one holder of each lease at a time, nothing written by a holder that lost its
// lease, nothing done twice outside, and no effect of a living server concluded by another.
import type { Group } from '#kernel/log/backend.ts'
import type { MemoryDisk } from '#stores/memory.ts'
import { LEASE_MS } from '#workers/leases.ts'
import { createRecord, type Fail, type Record as FactRecord, type SeenFact } from '../record.ts'
import { LEASES, type Server } from './server.ts'
import { POST } from './protocol.ts'

const NODE = 'kernel.lease/node/'
const PENDING = 'kernel.pending/'
const ACT = 'sim.act/'
const DELIVERY = 'kernel.delivery/'

export type ServerLaws = {
  readonly record: FactRecord
  onApplied(group: Group, writes: string, apply: () => void): void
  onAct(id: string, server: Server): void
  onPost(delivery: string, server: Server): void
  /** After every step. */
  judgeHolders(): void
  judgeEnd(): void
}

export type ServerLawOptions = {
  readonly disk: MemoryDisk
  readonly elapsed: () => number
  readonly servers: () => readonly Server[]
  /** Since when a server has been neither paused nor cut off nor held up. */
  readonly undisturbedSince: (server: Server) => number
  readonly serverOf: (writes: string) => Server
  readonly onFact: (fact: SeenFact) => void
  readonly fail: Fail
}

export function createServerLaws(options: ServerLawOptions): ServerLaws {
  const { disk, elapsed, servers, undisturbedSince, serverOf, onFact, fail } = options
  const record = createRecord(disk, fail)
  /** When the lease of a server last moved. */
  const moved = new Map<string, number>()
  const acted = new Set<string>()
  const posts = new Set<string>()
  const docOf = (key: string): any => {
    const text = disk.docs.get(key)?.text
    return text === undefined ? null : JSON.parse(text)
  }
  const isHolder = (lease: string, { name, leases }: Server): boolean => {
    const found = docOf(`kernel.lease/${lease}`)
    return found?.holder === name && found.term === leases()?.epoch
  }

  /** A write of a worker needs the lease, as it stands on the disk at that moment. */
  function judgeWriter(group: Group, server: Server): () => void {
    const actions = group.facts.map(({ line }) => (JSON.parse(line) as { action: string }).action)
    const needs = new Set([
      ...(actions.includes('sim/note.rung') ? ['timers'] : []),
      ...(actions.includes('sim/note.posted') ||
      [...group.update.map(({ key }) => key), ...group.remove].some((key) => key.startsWith(DELIVERY))
        ? [`outbox/${POST}`]
        : []),
    ])
    const before = new Map([...needs].map((lease) => [lease, isHolder(lease, server)]))
    return () => {
      for (const [lease, held] of before)
        if (!held && !isHolder(lease, server))
          fail(
            `${server.name} wrote ${actions.join(', ') || 'to the outbox'} though ${docOf(`kernel.lease/${lease}`)?.holder} holds ${lease}`,
          )
    }
  }

  /** Another server concludes an effect as unknown only when its own is over. */
  function judgeConclusion(fact: SeenFact, pending: any, writer: Server): void {
    const [image] = fact.images
    if (fact.line.action !== 'sim/act.ended' || image!.after.state !== 'unknown') return
    const { node, epoch } = pending as { node: string; epoch: number }
    const living = servers().find((server) => server.name === node && server.life.isAlive && server.leases()?.epoch === epoch)
    const still = elapsed() - (moved.get(node) ?? 0)
    if (living && living !== writer && !living.isStopping() && still <= LEASE_MS)
      fail(`${image!.after.id} is concluded as unknown, and ${node} is alive: its lease moved ${still} ms ago`)
  }

  return {
    record,
    onApplied(group, writes, apply) {
      const server = serverOf(writes)
      const judge = judgeWriter(group, server)
      const pending = new Map(group.remove.filter((key) => key.startsWith(PENDING)).map((key) => [key.slice(PENDING.length), docOf(key)]))
      apply()
      for (const { key } of [...group.create, ...group.update]) if (key.startsWith(NODE)) moved.set(key.slice(NODE.length), elapsed())
      record.observe((fact) => {
        judgeConclusion(fact, pending.get(fact.images[0]?.key.slice(ACT.length) ?? ''), server)
        onFact(fact)
      })
      judge()
    },
    onAct(id, server) {
      if (acted.has(id)) fail(`${id} is done a second time, by ${server.name}`)
      acted.add(id)
      if (record.docs.get(ACT + id)?.value.state === undefined) fail(`${id} is done before its intent is on the disk`)
    },
    onPost(delivery, server) {
      // Held up between its last look and the post, a server may be late by that much: then the next holder posts as well.
      const isUndisturbed = elapsed() - undisturbedSince(server) > 2 * LEASE_MS
      if (isUndisturbed && !isHolder(`outbox/${POST}`, server))
        fail(`${delivery} is posted by ${server.name}, which does not hold the lease`)
      posts.add(delivery)
    },
    judgeHolders() {
      for (const name of LEASES) {
        const all = servers().filter(
          (server) => server.life.isAlive && !server.isStopping() && server.leases()?.duty(name).holds() === true,
        )
        if (all.length > 1) fail(`${all.map((server) => server.name).join(' and ')} both hold ${name}`)
      }
    },
    judgeEnd() {
      record.checkAll()
      for (const [key, { value }] of record.docs) {
        if (key.startsWith(ACT) && value.state === 'begun') fail(`${key} never ended`)
        if (key.startsWith(ACT) && value.state === 'done' && !acted.has(value.id)) fail(`${key} counts as done, and nobody did it`)
        if (key.startsWith('sim.note/') && value.due !== null) fail(`${key} was due at ${value.due}, and nobody rang it`)
      }
      for (const key of disk.docs.keys()) {
        if (key.startsWith(DELIVERY)) fail(`${key} was never delivered`)
        if (key.startsWith(PENDING)) fail(`${key} has no outcome`)
      }
    },
  }
}
