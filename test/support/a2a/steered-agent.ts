// An agent that does what the id of its message says, in the words of the A2A compatibility kit (`tck-...`), and a person who approves what
// it delivers and ends what it gives up.
import type { Agent, Stage } from '#test/support/as-processes/agents.ts'
import { serve, type Run, type Serving } from '#sdk/agent/index.ts'

type Handling = Pick<Run, 'commit' | 'progress' | 'client' | 'id' | 'attempt' | 'steers' | 'task' | 'input' | 'signal'>

const file = { name: 'output.txt', media_type: 'text/plain' }
const messageIn = ({ task, input }: Handling): string =>
  task?.origin?.message_id ?? (input as { a2a?: { message_id?: string } }).a2a?.message_id ?? ''

/** The words in the id, the longest first. */
const acts: readonly (readonly [RegExp, (run: Handling) => Promise<unknown>])[] = [
  [/input-required/, askFirst],
  [/reject-task/, (run) => run.client.delegation.run.fail({ run_id: run.id, attempt: run.attempt, reason: 'refused', error: 'rejected' })],
  [
    /artifact-file-url/,
    (run) =>
      run.commit(
        { kind: 'ref', uri: 'https://example.com/output.txt', checksum: `sha256:${'0'.repeat(64)}`, size: 1 },
        { type: 'text/plain' },
      ),
  ],
  [/artifact-file/, (run) => run.commit('x', file)],
  [/artifact-data/, (run) => run.commit('{"key":"value","count":42}', { media_type: 'application/json' })],
  [/resubscribe/, slowly],
  [/stream/, working],
]

async function askFirst(run: Handling): Promise<void> {
  await run.client.delegation.run.ask({ run_id: run.id, attempt: run.attempt, message: 'Which one do you mean?' })
  for await (const { text } of run.steers()) return void (await run.commit(`You said: ${text}`))
}
async function working(run: Handling): Promise<void> {
  await run.progress('working on it')
  await run.commit('Generated text content')
}
async function slowly(run: Handling): Promise<void> {
  await run.progress('working on it')
  await new Promise((done) => setTimeout(done, 6_000))
  await run.commit('Done')
}

export function serveSteered(stage: Stage, agent: Agent): Serving {
  const handler = (run: Run): Promise<unknown> => {
    const id = messageIn(run)
    const act = acts.find(([words]) => words.test(id))?.[1]
    return run.task === null ? Promise.resolve({ text: 'Hello from TCK' }) : act ? act(run) : run.commit('Generated text content')
  }
  return serve(agent.id, handler, {
    url: stage.server.url,
    key: agent.key,
    concurrency: 32,
    graceMs: 100,
    log: () => undefined,
    onError: () => undefined,
  })
}

/** Approves every delivery and rejects every question, as it comes. */
export function approveAll({ owner }: Stage): () => void {
  const stopping = new AbortController()
  const pass = (): undefined => undefined
  async function judge(action: string, task_id: string): Promise<void> {
    if (action === 'checkpoint.raised' || action === 'task.checkpoint.raised') {
      const { items } = await owner.collaboration.checkpoint.list({ task_id })
      for (const { id, state } of items)
        if (state === 'pending') await owner.collaboration.checkpoint.resolve({ checkpoint_id: id, action: 'reject' }).catch(pass)
    }
    const { task } = await owner.collaboration.task.get({ task_id })
    if (task.state === 'review_ready') {
      const { artifact_id } = task.delivered!
      await owner.collaboration.review.submit({ task_id, artifact_id, verdict: 'approved' }).catch(pass)
    }
  }
  async function follow(): Promise<void> {
    for await (const { item } of owner.follow(
      'collaboration/audit.follow',
      { project_id: 'project_default' },
      { signal: stopping.signal },
    )) {
      const { event } = item
      if (event.task_id) void judge(event.action, event.task_id).catch(pass)
    }
  }
  void follow().catch(pass)
  return () => stopping.abort()
}
