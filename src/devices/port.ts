// The port of a board: what its lines, buses and serial ports can do. A board is simulated or real; the tools know only this.
import type { Profile } from './profile.ts'

/** Words for a step that failed. */
export type DeviceCode = 'timeout' | 'absent' | 'busy' | 'denied' | 'envelope' | 'io' | 'approval_stale'

/** A refusal or failure of a board or a guard. The step reports its code along with the message. */
export class DeviceError extends Error {
  override name = 'DeviceError'
  readonly code: DeviceCode
  constructor(code: DeviceCode, message: string) {
    super(message)
    this.code = code
  }
}
/** The task was asked to end, and the tool has yielded. */
export class Cancelled extends Error {
  override name = 'Cancelled'
}

export type Level = 0 | 1
/** The level of a line that becomes an output: its safe one. */
export const firstLevel = ({ gpio }: Profile, line: number): Level => gpio.get(line)?.safe ?? 0
export type Direction = 'in' | 'out'
export type Edge = 'rising' | 'falling'

export type Lines = {
  get(line: number): Level
  /** Synchronous, so that nothing can come between the envelope check and the act. */
  set(line: number, value: Level): void
  direction(line: number): Direction
  /** An output begins with the level of `firstLevel`. */
  mode(line: number, direction: Direction): void
  /** Something else holds it. */
  isHeld(line: number): boolean
  /** Calls back at each edge until the returned function is called. */
  watch(line: number, edge: (edge: Edge) => void): () => void
}
export type Buses = {
  /** One transaction: writes, then reads, without a stop in between. It always runs to its end. */
  transfer(bus: number, addr: number, write: Uint8Array, read: number): Promise<Uint8Array>
  /** Whether something answers at an address. */
  answers(bus: number, addr: number): Promise<boolean>
}
export type Framing = { readonly baud?: number | undefined; readonly parity?: 'none' | 'even' | 'odd' | undefined }
export type Ports = {
  write(port: string, bytes: Uint8Array, framing: Framing): Promise<void>
  /** Removes and returns at most `count` received bytes; empty: none have arrived. */
  take(port: string, count: number): Uint8Array
}

export type Board = {
  readonly name: 'simulated' | 'linux'
  readonly profile: Profile
  readonly lines: Lines
  readonly buses: Buses
  readonly ports: Ports
  close(): void
}
