// A writer of frames to one side of the ACP proxy. It says when its reader has caught up.
import type { Frame } from './frames.ts'

export type Sink = {
  write(text: string): unknown
  once?(event: 'drain' | 'close', listener: () => void): unknown
}

export type Writer = {
  send(frame: Omit<Frame, 'isOdd'>): void
  /** Resolves when the reader has caught up. */
  ready(): Promise<void>
  /** Stops waiting for the reader, which loses everything that it does not read. */
  leave(): void
  end(): void
}

export function createWriter(sink: Sink): Writer {
  let reader: 'here' | 'leaving' | 'gone' = 'here'
  let full: PromiseWithResolvers<void> | null = null
  const release = (): void => {
    full?.resolve()
    full = null
  }
  sink.once?.('close', release)
  return {
    send(frame) {
      if (reader === 'gone' || (reader === 'leaving' && full !== null)) return
      const { isOdd: _, ...plain } = frame as Frame
      if (sink.write(`${JSON.stringify({ ...plain, jsonrpc: '2.0' })}\n`) !== false || !sink.once || full !== null) return
      full = Promise.withResolvers<void>()
      sink.once('drain', release)
    },
    ready: () => (reader === 'here' && full !== null ? full.promise : Promise.resolve()),
    leave() {
      reader = 'leaving'
      full?.resolve()
    },
    end() {
      reader = 'gone'
      release()
    },
  }
}
