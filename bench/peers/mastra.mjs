// Mastra: a workflow whose step suspends for a person, with its snapshots in LibSQL.
import { Mastra } from '@mastra/core/mastra'
import { createStep, createWorkflow } from '@mastra/core/workflows'
import { LibSQLStore } from '@mastra/libsql'
import { z } from 'zod'
import { question, received, serve } from './driver.mjs'

const ask = createStep({
  id: 'ask',
  inputSchema: z.object({ id: z.string() }),
  resumeSchema: z.object({ result: z.string() }),
  outputSchema: z.object({ result: z.string() }),
  async execute({ inputData, resumeData, suspend }) {
    if (!resumeData) return suspend(question)
    received(inputData.id, resumeData.result)
    return resumeData
  },
})
const flow = createWorkflow({ id: 'asker', inputSchema: ask.inputSchema, outputSchema: ask.outputSchema }).then(ask).commit()
const storage = new LibSQLStore({ id: 'peers', url: `file:${process.env.PEER_DATA}/mastra.db` })
const mastra = new Mastra({ workflows: { asker: flow }, storage, logger: false })
const workflow = mastra.getWorkflow('asker')
const expect = (status, result) => {
  if (result.status !== status) throw new Error(`the run is ${result.status}: ${String(result.error)}`)
}
serve({
  async ask(id) {
    expect('suspended', await (await workflow.createRun({ runId: id })).start({ inputData: { id } }))
  },
  async answer(id, { result }) {
    expect('success', await (await workflow.createRun({ runId: id })).resume({ step: 'ask', resumeData: { result } }))
  },
  recall: async (id) => (await workflow.getWorkflowRunById(id))?.result?.result,
})
