// Runs one framework with a fake model through its adapter of examples/frameworks, in the folder where the framework is installed:
// node driver.mjs <framework> <case>. Prints what ran, what was asked and how it ended.
import { NotApproved } from 'countersign'
const [, , name, which] = process.argv
const ran = []
const keys = []
const calls = which === 'two' ? [{ amount: 1 }, { amount: 2 }] : [{ amount: 5 }]

const verdicts = {
  yes: () => ({ result: 'approved' }),
  twice: () => ({ result: 'approved' }),
  two: ({ amount }) => (amount === 2 ? { result: 'approved' } : verdicts.no()),
  nothing: () => undefined,
  odd: () => ({}),
  no: () => {
    throw new NotApproved('too much', null)
  },
  thrown: () => {
    throw new Error('the inbox cannot be reached')
  },
}
const hxp = {
  async approve(item, { details, key }) {
    keys.push(`${item} ${key}`)
    return verdicts[which](details.arguments ?? details)
  },
}

const frameworks = {
  async ai() {
    const { generateText, isStepCount, tool } = await import('ai')
    const { z } = await import('zod')
    const { inboxApproval } = await import('./ai.mjs')
    const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } }
    const model = {
      specificationVersion: 'v4',
      provider: 'fake',
      modelId: 'fake',
      supportedUrls: {},
      async doGenerate({ prompt }) {
        const isDone = prompt.some(({ role }) => role === 'tool')
        const asks = calls.map((input, i) => ({
          type: 'tool-call',
          toolCallId: `c${i + 1}`,
          toolName: 'pay',
          input: JSON.stringify(input),
        }))
        const content = isDone ? [{ type: 'text', text: 'done' }] : asks
        return { content, finishReason: { unified: isDone ? 'stop' : 'tool-calls', raw: undefined }, usage, warnings: [] }
      },
    }
    const execute = async ({ amount }) => (ran.push(amount), 'paid')
    const tools = { pay: tool({ inputSchema: z.object({ amount: z.number() }), execute }) }
    const options = { model, tools, stopWhen: isStepCount(5), toolApproval: inboxApproval(hxp, 'run_1') }
    const first = await generateText({ ...options, prompt: 'go' })
    // A denial must not break the next request.
    const messages = [{ role: 'user', content: 'go' }, ...first.responseMessages, { role: 'user', content: 'and now?' }]
    return (await generateText({ ...options, messages })).text
  },

  async 'openai-agents'() {
    const { Agent, Runner, setTracingDisabled, tool } = await import('@openai/agents')
    const { z } = await import('zod')
    const { runWithInbox } = await import('./openai-agents.mjs')
    setTracingDisabled(true)
    const model = {
      async getResponse({ input }) {
        const isDone = Array.isArray(input) && input.some(({ type }) => type === 'function_call_result')
        const text = { type: 'message', role: 'assistant', status: 'completed', id: 'm', content: [{ type: 'output_text', text: 'done' }] }
        const asks = calls.map((args, i) => ({
          type: 'function_call',
          id: `f${i}`,
          callId: `c${i + 1}`,
          name: 'pay',
          status: 'completed',
          arguments: JSON.stringify(args),
        }))
        return {
          usage: { requests: 1, inputTokens: 1, outputTokens: 1, totalTokens: 2, add() {} },
          responseId: 'r',
          output: isDone ? [text] : asks,
        }
      },
      async *getStreamedResponse() {},
    }
    const parameters = z.object({ amount: z.number() })
    const pay = tool({
      name: 'pay',
      description: 'pays',
      parameters,
      needsApproval: true,
      execute: async ({ amount }) => (ran.push(amount), 'paid'),
    })
    const agent = new Agent({ name: 'payer', instructions: 'pay', model, tools: [pay] })
    const runner = new Runner({ modelProvider: { getModel: () => model }, tracingDisabled: true })
    return (await runWithInbox(hxp, runner, agent, 'go', 'run_1')).finalOutput
  },

  async langgraph() {
    const { Annotation, Command, END, INTERRUPT, interrupt, MemorySaver, START, StateGraph } = await import('@langchain/langgraph')
    const { invokeWithInbox } = await import('./langgraph.mjs')
    const ask = (args) => interrupt([{ action_request: { action: 'pay', args }, config: { allow_accept: true }, description: 'pay' }])
    const builder = new StateGraph(Annotation.Root({ out: Annotation({ reducer: (a, b) => `${a ?? ''}${b}` }) }))
    for (const [i, args] of calls.entries()) {
      builder.addNode(`pay${i}`, () => {
        const [{ type, args: answer }] = ask(args)
        if (type === 'accept') ran.push(args.amount)
        return { out: type === 'accept' ? 'paid ' : `${answer} ` }
      })
      builder.addEdge(START, `pay${i}`)
      builder.addEdge(`pay${i}`, END)
    }
    const graph = builder.compile({ checkpointer: new MemorySaver() })
    const config = { configurable: { thread_id: 'run_1' } }
    if (which !== 'twice') return (await invokeWithInbox(hxp, graph, {}, config)).out
    const asked = await graph.invoke({}, config)
    const again = new Command({ resume: { [asked[INTERRUPT][0].id]: [{ type: 'accept' }] } })
    await graph.invoke(again, config)
    return (await graph.invoke(again, config).catch(({ message }) => ({ out: message }))).out
  },

  async mastra() {
    const { Mastra } = await import('@mastra/core')
    const { createStep, createWorkflow } = await import('@mastra/core/workflows')
    const { InMemoryStore } = await import('@mastra/core/storage')
    const { z } = await import('zod')
    const { runWithInbox } = await import('./mastra.mjs')
    const any = { inputSchema: z.any(), outputSchema: z.any() }
    const steps = calls.map((args, i) =>
      createStep({
        ...any,
        id: `pay${i}`,
        resumeSchema: z.object({ approved: z.boolean(), reason: z.string().optional() }),
        suspendSchema: z.any(),
        async execute({ resumeData, suspend }) {
          if (!resumeData) return suspend({ item: 'pay', ...args })
          if (resumeData.approved) ran.push(args.amount)
          return { out: resumeData.approved ? 'paid' : (resumeData.reason ?? 'no') }
        },
      }),
    )
    const workflow = createWorkflow({ id: 'flow', ...any })
    const flow = (steps.length > 1 ? workflow.parallel(steps) : workflow.then(steps[0])).commit()
    const mastra = new Mastra({ workflows: { flow }, storage: new InMemoryStore(), logger: false })
    const run = await mastra.getWorkflow('flow').createRun()
    const { status } = await runWithInbox(hxp, run, {})
    if (which === 'twice') await run.resume({ step: 'pay0', resumeData: { approved: true } }).catch(() => undefined)
    return status
  },

  async 'ag-ui'() {
    const { ResumeEntrySchema, RunFinishedEventSchema } = await import('@ag-ui/core/schemas')
    const { resumeFromInbox } = await import('./ag-ui.mjs')
    const interrupts = calls.map((metadata, i) => ({
      id: `i${i + 1}`,
      reason: 'approval',
      message: 'pay',
      toolCallId: `c${i + 1}`,
      metadata: { arguments: metadata },
    }))
    const event = { type: 'RUN_FINISHED', threadId: 'thread', runId: 'run_1', outcome: { type: 'interrupt', interrupts } }
    RunFinishedEventSchema.parse(event)
    const ask = async () =>
      (await resumeFromInbox({ approve: (item, { details, key }) => hxp.approve(item, { details: details.metadata, key }) }, event)).map(
        (one) => ResumeEntrySchema.parse(one),
      )
    const resume = await ask()
    // The framework runs what is resolved with a yes.
    for (const { interruptId, status, payload } of resume)
      if (status === 'resolved' && payload.approved) ran.push(calls[Number(interruptId.slice(1)) - 1].amount)
    return 'done'
  },
}

const end = await frameworks[name]().catch((error) => `threw ${error.message}`)
process.stdout.write(JSON.stringify({ ran, keys, end }))
process.exit(0)
