// OpenAI Agents: a run that is interrupted before a tool that needs approval. Its state is kept in a SQLite table of our own, with FULL
// syncs; the SDK itself stores nothing. A model that calls the tool once stands in for the real one.
import { DatabaseSync } from 'node:sqlite'
import { Agent, RunState, Usage, run, setTracingDisabled, tool } from '@openai/agents'
import { z } from 'zod'
import { received, serve } from './driver.mjs'

setTracingDisabled(true)
const database = new DatabaseSync(`${process.env.PEER_DATA}/openai.db`)
database.exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
  CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, state TEXT, answer TEXT)`)
const put = database.prepare('INSERT OR REPLACE INTO runs VALUES (?, ?, ?)')
const get = database.prepare('SELECT state, answer FROM runs WHERE id = ?')

const buy = tool({
  name: 'buy',
  description: 'Buys a plan.',
  parameters: z.object({ id: z.string() }),
  needsApproval: true,
  execute({ id }) {
    received(id, 'Approve')
    return 'bought'
  },
})
const model = {
  async getResponse({ input }) {
    const items = Array.isArray(input) ? input : [{ role: 'user', content: input }]
    const isDone = items.some(({ type }) => type === 'function_call_result')
    const id = typeof input === 'string' ? input : items.find(({ role }) => role === 'user').content
    const text = typeof id === 'string' ? id : id[0].text
    const call = { type: 'function_call', callId: 'call_1', name: 'buy', status: 'completed', arguments: JSON.stringify({ id: text }) }
    const message = { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'Done.' }] }
    return { usage: new Usage(), output: [isDone ? message : call] }
  },
  getStreamedResponse() {
    throw new Error('runs of the benchmark do not stream')
  },
}
const agent = new Agent({ name: 'asker', instructions: 'Buy.', model, tools: [buy] })
serve({
  async ask(id) {
    const { interruptions, state } = await run(agent, id)
    if (interruptions.length !== 1) throw new Error('the run was not interrupted')
    put.run(id, state.toString(), null)
  },
  async answer(id, { result }) {
    const state = await RunState.fromString(agent, get.get(id).state)
    for (const interruption of state.getInterruptions()) state.approve(interruption)
    await run(agent, state)
    put.run(id, state.toString(), result)
  },
  recall: (id) => get.get(id)?.answer ?? undefined,
})
