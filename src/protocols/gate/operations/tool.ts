// Tools of the servers behind gates: their definitions are pinned when they are first seen, and people trust later ones.
import { Refusal } from '#kernel/declare/errors.ts'
import { anyone, authorize, heldBy, installationOwner, isIn, ownsProject, role } from '#kernel/declare/access.ts'
import { image } from '#kernel/declare/facts.ts'
import { command, query } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf, readListed } from '#kernel/declare/paging.ts'
import { either, nullable, t } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { evaluate } from '#kernel/policy/evaluate.ts'
import { agent, projectOf } from '../access.ts'
import { fact } from '../events.ts'
import { Id, Open, ServerName, Tool, toolId, ToolName } from '../schema.ts'
import { policiesFor } from '../standing.ts'
import { pinAfter, RESERVED } from './propose.ts'

const ToolState = either('new', 'trusted', 'changed', 'denied', 'doubled', 'reserved')
const Listed = t.Object({
  name: ToolName,
  state: ToolState,
  listed: t.Boolean({ description: 'the gate shows it to the agent' }),
  definition: nullable({ ...Open, description: 'the trusted definition' }),
})

const report = command({
  name: 'tool.report',
  summary: 'Report the tools of a server behind a gate. The answer says which of them the agent is shown, and with which definition.',
  draft: 'ours: a changed tool does not run until a person trusts it',
  input: t.Object({
    server: ServerName,
    tools: t.Array(t.Object({ name: ToolName, definition: { ...Open, description: 'as the server lists it' }, hints: t.Optional(Open) }), {
      maxItems: limits.toolsPerReportMax,
      description: 'the tools, as the server lists them',
    }),
  }),
  output: t.Object({ tools: t.Array(Listed) }),
  callers: [agent],
  requires: [],
  audit: 'tool.pinned',
  async load(read, { server, tools }, { actor }) {
    authorize('tool.report', [agent], actor, null)
    const project_id = projectOf(actor)
    const owner = (await read.subject(actor.id))?.owner ?? null
    const policies = await policiesFor(read, project_id, owner)
    const pins = await Promise.all(tools.map(({ name }) => read.raw(Tool, toolId(project_id, server, name))))
    return { project_id, policies, pins }
  },
  decide({ project_id, policies, pins }, { server, tools }, { actor, now }) {
    const names = tools.map(({ name }) => name)
    const isDoubled = (name: string): boolean => names.indexOf(name) !== names.lastIndexOf(name)
    const facts = []
    const answers = []
    for (const [i, { name, definition, hints = {} }] of tools.entries()) {
      if (Buffer.byteLength(canonical(definition)) > limits.toolDefinitionBytesMax)
        throw new Refusal('INVALID_REQUEST', `tools.${i}.definition has more than ${limits.toolDefinitionBytesMax} bytes`, {
          field: `tools.${i}.definition`,
        })
      const pinned = pins[i] ?? null
      const hidden = name === RESERVED ? 'reserved' : isDoubled(name) ? 'doubled' : null
      if (hidden !== null) {
        answers.push({ name, state: hidden, listed: false, definition: null } as const)
        continue
      }
      const next = pinAfter(pinned, { project_id, server, name, definition }, now)
      if (next !== null) facts.push(fact(next.offered === null ? 'tool.pinned' : 'tool.changed', [image(Tool, next)]))
      const after = next ?? pinned!
      const call = { kind: 'tool', name: `${server}/${name}`, agent: actor.id, project: project_id, arguments: {}, hints } as const
      const { rule, verdict } = evaluate(policies, call, now)
      const isDenied = verdict === 'deny' && (rule?.when ?? []).length === 0 && rule?.hours === undefined
      const state = isDenied ? 'denied' : pinned === null ? 'new' : after.offered === null ? 'trusted' : 'changed'
      answers.push({ name, state, listed: !isDenied, definition: after.trusted.definition } as const)
    }
    return { facts, output: { tools: answers } }
  },
  example: {
    given: 'empty',
    as: 'devin',
    input: { server: 'files', tools: [{ name: 'read_file', definition: { name: 'read_file', inputSchema: { type: 'object' } } }] },
  },
})

type OfTool = { readonly tool: Tool }
const projectOwner = heldBy(
  'an owner of the project',
  role<OfTool>('an owner of the project', (actor, { tool }) => actor.kind === 'human' && ownsProject(actor, tool.project_id)),
)

const trust = command({
  name: 'tool.trust',
  summary: 'Trust the changed definition of a tool: calls run with it again.',
  draft: 'ours: a changed tool does not run until a person trusts it',
  input: t.Object({
    server: ServerName,
    tool: ToolName,
    project_id: t.Optional({ ...Id, description: 'the project; project_default without it' }),
    digest: t.Optional(t.String({ maxLength: 100, description: 'only if the new definition has this digest' })),
  }),
  output: t.Object({ tool: Tool.schema }),
  callers: [projectOwner, installationOwner],
  requires: [],
  audit: 'tool.trusted',
  async load(read, { server, tool, project_id = 'project_default' }, { actor }): Promise<OfTool> {
    const found = isIn(actor, project_id) ? await read.maybe(Tool, toolId(project_id, server, tool)) : null
    if (found === null) throw new Refusal('NOT_FOUND', `there is no tool ${server}/${tool} in ${project_id}`)
    return { tool: found }
  },
  decide({ tool }, { digest }, { actor }) {
    if (tool.offered === null) {
      if (digest !== undefined && digest !== tool.trusted.digest)
        throw new Refusal('CONFLICT', 'the tool has no definition with this digest', { field: 'digest' })
      return { facts: [], output: { tool } }
    }
    if (digest !== undefined && digest !== tool.offered.digest)
      throw new Refusal('CONFLICT', `the definition has changed again; its digest is ${tool.offered.digest} now`, { field: 'digest' })
    const next: Tool = { ...tool, trusted: tool.offered, offered: null, trusted_by: actor.id }
    return { facts: [fact('tool.trusted', [image(Tool, next)], { detail: { digest: next.trusted.digest } })], output: { tool: next } }
  },
  example: { given: 'changed', as: 'owner', input: { server: 'files', tool: 'read_file' } },
})

const list = query({
  name: 'tool.list',
  summary: 'List the tools behind gates, with their trusted and their changed definitions.',
  draft: 'ours: a changed tool does not run until a person trusts it',
  input: t.Object({ ...pageInput }),
  output: t.Object({ items: t.Array(Tool.schema), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const prefixes = actor.projects === 'all' ? [[]] : [...actor.projects.keys()].map((id) => [id])
    return readListed(read, Tool, await read.list(Tool, 'project', prefixes, pageIn('tool.list', input)))
  },
  view: ({ listed, items, isCut }, input) => pageOf('tool.list', input, listed, items, isCut),
  example: { given: 'changed', as: 'owner', input: {} },
})

export const toolOperations = [report, trust, list]
