// The next lane of an outbox to be served. Owners share the lanes: the receivers of one owner, dead or slow, never hold up those of another.

export type Share = {
  readonly owner: string
  /** Of this owner. A receiver that did not answer in time gets one lane until it answers again. */
  readonly address: string
  /** It leaves a quarter of the lanes to those that do not. */
  readonly yields: boolean
}

/** A delivery that ended, or is to be tried again, because the receiver did not answer in time. */
export const UNANSWERED = 'unanswered'
export class Unanswered extends Error {}

const SILENT_MAX = 10_000

export type LaneShares = {
  hasRoomFor(share: Share): boolean
  begin(lane: string, share: Share): void
  end(lane: string): void
  /** Remembers whether the receiver of this lane answered the last attempt. Answers whether it answers again. */
  note(lane: string, isSilent: boolean): boolean
  isSilent(lane: string): boolean
  /** Those that yield come last; the rest in turns by owner, the one with the fewest lanes first. */
  inTurns<T extends { readonly share: Share }>(waiting: readonly T[]): T[]
}

export function createLaneShares(lanesMax: number): LaneShares {
  const active = new Map<string, Share>()
  const owners = new Map<string, number>()
  const addresses = new Map<string, number>()
  const silent = new Set<string>()
  const countIn = (counts: Map<string, number>, name: string, by: 1 | -1): void => {
    const count = (counts.get(name) ?? 0) + by
    if (count === 0) counts.delete(name)
    else counts.set(name, count)
  }
  const count = ({ owner, address }: Share, by: 1 | -1): void => {
    countIn(owners, owner, by)
    countIn(addresses, address, by)
  }
  return {
    // An owner takes fewer lanes than it leaves free, so there is always one for the next owner.
    hasRoomFor({ owner, address, yields }) {
      const free = lanesMax - active.size - (yields ? Math.ceil(lanesMax / 4) : 0)
      return (owners.get(owner) ?? 0) < free && !(silent.has(address) && addresses.has(address))
    },
    begin(lane, share) {
      active.set(lane, share)
      count(share, 1)
    },
    end(lane) {
      const share = active.get(lane)
      if (share) count(share, -1)
      active.delete(lane)
    },
    note(lane, isSilent) {
      const { address } = active.get(lane)!
      const wasSilent = silent.delete(address)
      if (isSilent) silent.add(address)
      if (silent.size > SILENT_MAX) silent.delete(silent.values().next().value!)
      return wasSilent && !isSilent
    },
    isSilent: (lane) => silent.has(active.get(lane)!.address),
    inTurns(waiting) {
      const turns = new Map(owners)
      const withTurn = waiting.map((one) => {
        const turn = turns.get(one.share.owner) ?? 0
        turns.set(one.share.owner, turn + 1)
        return { one, turn }
      })
      return withTurn.toSorted((a, b) => Number(a.one.share.yields) - Number(b.one.share.yields) || a.turn - b.turn).map(({ one }) => one)
    },
  }
}
