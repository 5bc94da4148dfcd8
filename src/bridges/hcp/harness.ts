// A harness at its broker: the link, the handling of incoming messages, and a publisher for outgoing ones. The outbox itself is a worker, which the app
// gives `publish`.
import type { Kernel } from '#kernel/kernel.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { inbound } from './inbound.ts'
import { connect, type Link, type LinkOptions } from './link.ts'

export type HarnessOptions = Omit<LinkOptions, 'log'> & {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: LinkOptions['log'] & { error(fields: object, message: string): void }
}
export type Harness = Pick<Link, 'state' | 'problem' | 'publish'> & { stop(): Promise<void> }

export function startHarness({ kernel, clock, log, ...options }: HarnessOptions): Harness {
  const link = connect({ ...options, log })
  const handle = inbound({ id: options.id, kernel, clock, link, log })
  link.consume(handle)
  return {
    state: link.state,
    problem: link.problem,
    publish: link.publish,
    async stop() {
      handle.stop()
      await link.stop()
    },
  }
}
