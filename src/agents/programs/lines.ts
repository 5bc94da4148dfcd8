// JSON lines between a program and the server, both ways. This file has the whole mapping to operations, and it is pure: a child of the
// server and a command behind `countersign agent run` use the same lines.
import { decode } from '#kernel/codec/strict-json.ts'
import type { Message, Request, Run } from '#protocols/delegation/schema.ts'

export type MailboxItem = {
  readonly run: Run
  readonly request: Request
  readonly attempt: number
  readonly messages: readonly Message[]
}
type Fields = Readonly<Record<string, unknown>>

/** `asks`: the run waits for a person; `ends`: nothing comes after it; `answers`: the child waits for a line. */
export type ParsedLine =
  | {
      readonly kind: 'call'
      readonly type: string
      readonly operation: string
      readonly input: Fields
      readonly effect: 'asks' | 'ends' | 'answers' | 'none'
    }
  | { readonly kind: 'wrong'; readonly message: string }

type Rule = {
  readonly needsTask: boolean
  readonly effect: (ParsedLine & { kind: 'call' })['effect']
  readonly operation: string | ((fields: Fields) => string)
  input(fields: Fields, item: MailboxItem): Fields
}

const ofRun = ({ run, attempt }: MailboxItem): Fields => ({ run_id: run.id, attempt })
export const ofTask = ({ run, attempt }: MailboxItem): Fields => ({ task_id: run.task_id, run_id: run.id, attempt })

/** Text is committed inline. For a URI, or bytes stored elsewhere, the line has the payload of artifact.commit. */
export const inlineUri = (text: string): string => `data:text/plain;charset=utf-8;base64,${Buffer.from(text).toString('base64')}`
export const inlinePayload = (text: string): Fields => ({ kind: 'inline', uri: inlineUri(text) })
const commitInput = ({ text, artifact_type, payload, ...rest }: Fields): Fields => ({
  ...rest,
  ...(artifact_type === undefined ? {} : { type: artifact_type }),
  payload: typeof text === 'string' ? inlinePayload(text) : payload,
})

const rules: Readonly<Record<string, Rule>> = {
  progress: {
    needsTask: false,
    effect: 'none',
    operation: 'delegation/run.progress',
    input: (fields, item) => ({ ...fields, ...ofRun(item) }),
  },
  ask: {
    needsTask: true,
    effect: 'asks',
    operation: 'delegation/run.report',
    input: ({ kind = 'approval', ...payload }, item) => ({ type: `needs_${String(kind)}`, payload, ...ofRun(item) }),
  },
  commit: {
    needsTask: true,
    effect: 'none',
    operation: 'collaboration/artifact.commit',
    input: (fields, item) => ({ ...commitInput(fields), ...ofTask(item) }),
  },
  delegate: {
    needsTask: false,
    effect: 'answers',
    operation: 'delegation/agent.delegate',
    input: (fields, item) => ({ ...fields, parent_run: item.run.id, attempt: item.attempt }),
  },
  ledger: {
    needsTask: true,
    effect: 'answers',
    operation: ({ value }) => (value === undefined ? 'collaboration/ledger.read' : 'collaboration/ledger.write'),
    input: ({ value, ...fields }, item) =>
      value === undefined ? { scope: `project:${item.run.project_id}`, ...fields } : { ...fields, value, ...ofTask(item) },
  },
  complete: {
    needsTask: false,
    effect: 'ends',
    operation: 'delegation/run.complete',
    input: (fields, item) => ({ ...fields, ...ofRun(item) }),
  },
  fail: {
    needsTask: false,
    effect: 'ends',
    operation: 'delegation/run.fail',
    input: ({ error = 'it gave no reason', ...fields }, item) => ({ ...fields, error, ...ofRun(item) }),
  },
}
export const lineTypes = Object.keys(rules)

const wrong = (message: string): ParsedLine => ({ kind: 'wrong', message })

/** The meaning of a child's line for its run. */
export function parseLine(line: Uint8Array, item: MailboxItem): ParsedLine {
  let fields: unknown
  try {
    fields = decode(line)
  } catch (error) {
    return wrong(`a line is one JSON object: ${(error as Error).message}`)
  }
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) return wrong('a line is one JSON object')
  const { type, ...rest } = fields as Fields
  const rule = typeof type === 'string' && Object.hasOwn(rules, type) ? rules[type]! : null
  if (rule === null) return wrong(`type is one of ${lineTypes.join(', ')}`)
  if (rule.needsTask && item.run.task_id === null) return wrong(`${String(type)} needs a task, and this run has none`)
  const operation = typeof rule.operation === 'string' ? rule.operation : rule.operation(rest)
  return { kind: 'call', type: type as string, operation, input: rule.input(rest, item), effect: rule.effect }
}

// --- What a child is told ------------------------------------------------------------------------------------------------------

const line = (fields: Fields): string => `${JSON.stringify(fields)}\n`

/** The first line of every child, also after a restart. */
export const runLine = ({ run, request, attempt }: MailboxItem): string =>
  line({
    type: 'run',
    run_id: run.id,
    task_id: run.task_id,
    agent_id: run.agent_id,
    project_id: run.project_id,
    attempt,
    continues: run.continues,
    capability: request.capability,
    input: request.input,
    context: request.context,
  })
export const messageLine = ({ kind, at, body }: Pick<Message, 'kind' | 'at' | 'body'>): string => line({ type: kind, at, ...body })
export const answerLine = (type: string, answer: Fields): string => line({ type, ...answer })
export const errorLine = (re: string, code: string, message: string): string => line({ type: 'error', re, code, message })
