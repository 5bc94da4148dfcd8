// The next lane of an outbox to be served. Owners share the lanes, so dead or slow receivers of one owner never delay another owner.

export type Share = {
  readonly owner: string
  /** Of this owner. A receiver that did not answer in time gets one lane until it answers again. */
  readonly address: string
  /** True: it leaves a quarter of the lanes to deliveries that do not yield. */
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
  /** Orders by turns of owners, the owner with the fewest lanes first; yielding deliveries come last. */
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
      const withTurn = waiting.map((lane) => {
        const turn = turns.get(lane.share.owner) ?? 0
        turns.set(lane.share.owner, turn + 1)
        return { lane, turn }
      })
      return withTurn
        .toSorted((a, b) => Number(a.lane.share.yields) - Number(b.lane.share.yields) || a.turn - b.turn)
        .map(({ lane }) => lane)
    },
  }
}
