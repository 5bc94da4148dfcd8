// LangGraph: a graph that is interrupted for a person, with its checkpoints in PostgreSQL, written before each step ends.
import { Annotation, Command, END, START, StateGraph, interrupt } from '@langchain/langgraph'
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres'
import pg from 'pg'
import { question, received, serve } from './driver.mjs'

const saver = new PostgresSaver(new pg.Pool({ connectionString: process.env.PEER_DATABASE, max: 32 }))
await saver.setup()
const State = Annotation.Root({ id: Annotation(), answer: Annotation() })
const graph = new StateGraph(State)
  .addNode('ask', ({ id }) => {
    const answer = interrupt(question)
    received(id, answer)
    return { answer }
  })
  .addEdge(START, 'ask')
  .addEdge('ask', END)
  .compile({ checkpointer: saver })
const configOf = (id) => ({ configurable: { thread_id: id }, durability: 'sync' })
serve({
  ask: async (id) => void (await graph.invoke({ id }, configOf(id))),
  answer: async (id, { result }) => void (await graph.invoke(new Command({ resume: result }), configOf(id))),
  recall: async (id) => (await graph.getState(configOf(id))).values.answer,
})
