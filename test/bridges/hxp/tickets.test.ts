// Tickets that several servers share: each works once, on whichever server, however it is written.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSharedTickets } from '#bridges/hxp/sockets/shared-tickets.ts'
import { memoryDisk, memoryStore } from '#stores/memory.ts'
import { toyKernel } from '../../support/in-process/toy.ts'

test('a shared ticket works once, also in another spelling of the same value', async () => {
  const disk = memoryDisk()
  const [one, two] = [1, 2].map(() =>
    createSharedTickets(toyKernel(memoryStore({ disk, isShared: true }), { now: Date.now }), new Uint8Array(32).fill(7)),
  ) as [ReturnType<typeof createSharedTickets>, ReturnType<typeof createSharedTickets>]
  const credential = { kind: 'bearer', token: 'key' } as const
  for (const change of [(text: string) => text, (text: string) => `!${text}`, (text: string) => `${text.slice(0, 9)}=${text.slice(9)}`]) {
    const ticket = one.issue('hxp_1', credential)
    assert.deepEqual(await one.redeem(ticket, 'hxp_1'), credential)
    // Either of both is no second use.
    const again = await Promise.resolve(two.redeem(change(ticket), 'hxp_1')).catch((error: { code: string }) => error.code)
    assert.ok(again === null || again === 'UNAUTHENTICATED', JSON.stringify(again))
  }
})
