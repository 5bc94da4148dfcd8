// DBOS: a workflow that waits for a message, on PostgreSQL.
import { DBOS } from '@dbos-inc/dbos-sdk'
import { question, received, serve } from './driver.mjs'

const WAIT_SECONDS = 3_600
const asker = DBOS.registerWorkflow(
  async (id) => {
    const answer = await DBOS.recv('answer', { timeoutSeconds: WAIT_SECONDS })
    received(id, answer)
    return answer
  },
  { name: 'asker' },
)
DBOS.setConfig({
  name: 'peers',
  systemDatabaseUrl: process.env.PEER_DATABASE,
  systemDatabasePoolSize: 32,
  runAdminServer: false,
  logLevel: 'error',
})
await DBOS.launch()
serve({
  ask: async (id) => void (await DBOS.startWorkflow(asker, { workflowID: id })(id, question)),
  answer: (id, { result }) => DBOS.send(id, result, 'answer'),
  recall: (id) => DBOS.retrieveWorkflow(id).getResult(),
})
