// Existing clients against this server, unmodified: what they send, and what they need to find in the answers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHttp } from '#bindings/http.ts'
import { hxp } from '#bridges/hxp/index.ts'
import type { Actor } from '#kernel/identity.ts'
import { agentClient, demo, page } from '../support/hxp-clients.ts'
import { hxpWorld } from '../support/hxp-world.ts'

const wait = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))

test('an agent’s client creates, polls and gets its receipts; every error has a message', async (t) => {
  const { port, keys } = await hxpWorld(t)
  await agentClient(`http://127.0.0.1:${port}`, { agent: keys.devin, human: keys.alice }, wait)
})

test('the page for people reads the inbox and answers a number with the text "42"', async (t) => {
  const { port, keys } = await hxpWorld(t)
  await page(`http://127.0.0.1:${port}`, { agent: keys.devin, human: keys.alice }, `http://127.0.0.1:${port}`)
})

test('the demo script asks under several names with one development key', async (t) => {
  const { kernel } = await hxpWorld(t)
  const devin: Actor = { id: 'agent_devin', kind: 'agent', projects: new Map([['project_default', 'member']]), via: 'development' }
  const http = createHttp({
    kernel,
    authenticate: ({ token }) => (token === 'dev-agent-key' ? Promise.resolve(devin) : Promise.reject(new Error('nobody'))),
    logins: { open: () => Promise.reject(new Error('none')), close: () => Promise.resolve() },
    log: { level: 'info', debug: () => undefined, error: () => undefined },
    version: '1',
    hosts: [],
    proxied: false,
    health: () => ({}),
    bridges: [hxp()],
  })
  t.after(http.stop)
  await demo(`http://127.0.0.1:${await http.listen(0, '127.0.0.1')}`, { agent: 'dev-agent-key', human: '' })
  const { port, keys } = await hxpWorld(t)
  await assert.rejects(demo(`http://127.0.0.1:${port}`, { agent: keys.devin, human: '' }), /401/, 'any other key asks in its own name')
})
