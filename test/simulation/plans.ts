// Plans of the actors: mostly a step that moves a task on, sometimes one that they may not take, often several at once.
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import type { Plan } from './clients.ts'
import { isOver } from './laws.ts'
import type { Random } from './random.ts'
import type { Record as FactRecord } from './record.ts'
import { actionWith, ADMIN, HOSTILE, projects, REVIEWER, type ProjectName, type Scene } from './world.ts'

const MINUTE_MS = 60_000
const TASKS_MAX = 4

export type Planner = { next(id: number): Plan; tasks(): any[] }
type Made = Omit<Plan, 'keyed' | 'op'> & { readonly op: string }

export function createPlanner(random: Random, record: FactRecord, now: () => number, { isAtWork, isConfirming }: Scene): Planner {
  let last: string | undefined
  const ofKind = (prefix: string): any[] => [...record.docs].filter(([key]) => key.startsWith(prefix)).map(([, { value }]) => value)
  const tasks = (): any[] => ofKind('collaboration.task/')
  const agentsIn = (task: any): readonly string[] => projects[task.project_id as ProjectName].agents
  const later = (): string => new Date(now() + random.pick([1, 10, 60, 600, 7_200]) * MINUTE_MS).toISOString()
  const some = <T>(probability: number, value: () => T): T | undefined => (random.chance(probability) ? value() : undefined)
  const message = (id: number): string => `~${id}~`
  const person = (task: any): string =>
    task.reviewers.length > 0 && random.chance(0.5) ? random.pick(task.reviewers) : task.ownership.principal

  function create(id: number): Made {
    const project = random.pick(Object.keys(projects) as ProjectName[])
    const { principal } = projects[project]
    const parent = tasks().find((task) => task.ownership.principal === principal && !isOver(task.state))
    const input = {
      project_id: project,
      spec: {
        goal: message(id),
        constraints: {
          on_expiry: ['fail', 'default'],
          max_duration: some(0.2, () => random.pick(['PT5M', 'PT60M'])),
          autonomy: some(0.25, () => 'plan_then_implement'),
        },
      },
      deadline: some(0.2, later),
      reviewers: some(0.7, () => [REVIEWER]),
      parent_task: some(0.2, () => parent?.id),
      delegable: random.chance(0.7),
    }
    return { as: principal, op: 'task.create', input }
  }

  function raise(id: number, task: any): Made {
    const kind = random.pick(['approval', 'choice', 'input', 'escalation'])
    const options =
      kind === 'choice'
        ? [
            { id: 'a', label: 'A', risk: 'low' },
            { id: 'b', label: 'B', risk: 'high' },
          ]
        : undefined
    const answer = kind === 'choice' ? { action: 'choose', choice: 'a' } : { action: 'provide', input: 'as before' }
    const on_expiry = random.pick(['hold', 'escalate', 'fail', ...(kind === 'choice' || kind === 'input' ? ['default'] : [])])
    const timed = random.chance(0.6)
    const expiry = timed
      ? { on_expiry, expires_in: random.pick(['PT1M', 'PT30M', 'PT24H']), default: on_expiry === 'default' ? answer : undefined }
      : {}
    // An approved action permits an invocation with the arguments that were shown.
    const action = isConfirming ? actionWith : (one: string): object => ({ id: one, kind: 'sql', summary: one, risk: 'high' })
    const proposed_actions = some(isConfirming ? 0.8 : 0.2, () => ['read', 'drop'].map(action))
    const input = { task_id: task.id, kind, prompt: message(id), options, proposed_actions, ...expiry }
    return { as: task.executor, op: 'checkpoint.raise', input }
  }

  function resolve(id: number, task: any, as = person(task)): Made {
    const open = task.pending_checkpoint ?? task.checkpoints.at(-1) ?? 'ckpt_none'
    const chosen = random.chance(0.8) ? open : (task.checkpoints[0] ?? open)
    const asked = record.docs.get(`collaboration.checkpoint/${chosen}`)?.value
    const kind = asked?.escalates ?? asked?.kind
    const fitting = kind === 'choice' ? 'choose' : kind === 'input' ? 'provide' : 'approve'
    const action = random.weighted([
      [6, fitting],
      [1, 'reject'],
      [1, 'reassign'],
      // An answer that another kind of question would take.
      [0.7, random.pick(['approve', 'choose', 'provide'])],
    ])
    const approved_actions = some(0.2, () => ['read'])
    const reassign_to = random.pick(agentsIn(task))
    const input = { checkpoint_id: chosen, action, choice: 'a', input: 'yes', reassign_to, comment: message(id), approved_actions }
    return { as, op: 'checkpoint.resolve', input }
  }

  /** A person who will not answer: at the checkpoint, or at its item. */
  function decline(id: number, task: any, as = person(task)): Made {
    const checkpoint_id = task.pending_checkpoint ?? 'ckpt_none'
    if (random.chance(0.5)) return { as, op: 'checkpoint.decline', input: { checkpoint_id, reason: message(id) } }
    const item = ofKind('execution.request/').find((one) => one.task_id === task.id && one.status === 'pending')
    return { as, op: 'execution/request.decline', input: { request_id: item?.id ?? 'hxp_none', reason: message(id) } }
  }

  /** The same in the inbox, where the item of the task stands. */
  function answer(id: number, task: any, as = person(task)): Made {
    const items = ofKind('execution.request/').filter((item) => item.task_id === task.id)
    const item = items.find(({ status }) => status === 'pending') ?? items.at(-1)
    const usual = item?.kind === 'review' ? ['changes_requested', 'changes_requested'] : []
    const options: string[] = [
      ...usual,
      ...(item?.payload.options ?? item?.payload.validation?.allowed_values ?? ['approved', 'approved', 'rejected']),
    ]
    const result = item?.payload.input_type === 'text' ? 'yes' : random.pick(options)
    return { as, op: 'execution/request.resolve', input: { request_id: item?.id ?? 'hxp_none', result, reason: message(id) } }
  }

  /** An agent asks through HXP within its task. */
  function ask(id: number, task: any): Made {
    const [fallback, timeout_seconds] = random.pick<[string, number]>([
      ['pause', 0],
      ['pause', 60],
      ['fail', 1_800],
      ['default', 1_800],
    ])
    const scope = random.chance(0.4) ? { scope: random.pick(['shell:read', 'deploy:staging']) } : {}
    const asked = random.pick([
      ['APPROVE', { item: message(id), details: {}, ...scope }],
      ['DECIDE', { question: message(id), options: ['a', 'b'], default_option: 'a' }],
      ['PROVIDE', { prompt: message(id), input_type: 'text' }],
    ] as const)
    const [action, payload] =
      fallback === 'default' ? (['DECIDE', { question: message(id), options: ['a', 'b'], default_option: 'a' }] as const) : asked
    const input = { action, payload, fallback, timeout_seconds, metadata: { task_id: task.id } }
    return { as: task.executor, op: 'execution/request.create', input }
  }

  function commit(id: number, task: any): Made {
    const payload = { kind: 'inline', uri: `data:text/plain,${message(id)}` }
    const head = task.artifacts.length > 0 ? record.docs.get(`collaboration.artifact_head/${task.artifacts[0]}`)?.value : undefined
    const next = head && random.chance(0.8) ? { artifact_id: head.id, parent_version: random.chance(0.6) ? head.version : 'v1' } : {}
    const wantsPlan = task.spec.constraints.autonomy === 'plan_then_implement' && !task.plan_approved
    const kind = wantsPlan === random.chance(0.9) ? 'plan' : 'deliverable'
    return { as: task.executor, op: 'artifact.commit', input: { task_id: task.id, payload, ...next, kind, final: some(0.5, () => false) } }
  }

  function edit(id: number, task: any): Made {
    const head = record.docs.get(`collaboration.artifact_head/${task.artifacts[0]}`)?.value
    const payload = { kind: 'inline', uri: `data:text/plain,${message(id)}` }
    const next = { artifact_id: head?.id ?? 'art_none', parent_version: head && random.chance(0.8) ? head.version : 'v1' }
    const version = head === undefined || random.chance(0.2) ? {} : next
    const final = some(0.6, () => true)
    return { as: person(task), op: 'artifact.edit', input: { task_id: task.id, payload, ...version, final } }
  }

  function upload(id: number, task: any): Made {
    const input = { task_id: task.id, checksum: `sha256:${sha256Hex(message(id))}`, size: message(id).length, name: message(id) }
    return { as: random.chance(0.7) ? (task.executor ?? person(task)) : person(task), op: 'artifact.upload', input }
  }

  function granting(task_id: string, scope: string, until: string): object {
    const decision = random.pick(['allow', 'deny', isAtWork ? 'deny' : 'allow'])
    return { task_id, scope, decision, until, uses: decision === 'allow' ? some(0.4, () => 1 + random.below(2)) : undefined }
  }

  /** Acts of a person on an agent that works, and grants that they give it beforehand. */
  function control(id: number, task: any): Made {
    const { id: task_id, ownership, executor, state } = task
    const [works, waits] = [state === 'in_progress', state === 'blocked']
    const own = { as: ownership.principal }
    const scope = random.pick(['shell:read', 'deploy:staging'])
    const grants = ofKind('collaboration.grant/').filter((grant) => grant.task_id === task_id)
    const until = (): string => random.pick(['session', 'task', later()])
    return random.weighted<() => Made>([
      [works ? 3 : 0.3, () => ({ ...own, op: 'task.interrupt', input: { task_id, reason: message(id) } })],
      [works ? 4 : 0.3, () => ({ ...own, op: 'task.takeover', input: { task_id } })],
      [isTakenOver(task) ? 4 : 0.3, () => ({ ...own, op: 'task.return', input: { task_id, comment: message(id) } })],
      [
        works || waits ? 3 : 0.3,
        () => ({ ...own, op: 'task.amend', input: { task_id, text: message(id), intent: random.pick(['redirect', 'clarify']) } }),
      ],
      [
        isAtWork && !isConfirming ? 20 : 3,
        () => ({
          ...own,
          op: 'grant.add',
          input: granting(task_id, random.pick([scope, scope, 'shell:*', 'cap:open', 'cap:*']), until()),
        }),
      ],
      [grants.length > 0 ? 2 : 0.1, () => ({ ...own, op: 'grant.revoke', input: { grant_id: grants.at(-1)?.id ?? 'grant_none' } })],
      [
        works ? (grants.length > 0 ? 8 : 1) : 0.2,
        () => ({ as: executor ?? ownership.principal, op: 'grant.use', input: { task_id, scope } }),
      ],
      [2, () => upload(id, task)],
      [waits && (task.artifacts.length > 0 || isTakenOver(task)) ? 8 : 0.1, () => edit(id, task)],
    ])()
  }

  function review(id: number, task: any, op: 'review.submit' | 'review.comment', as = person(task)): Made {
    const delivered = some(op === 'review.submit' ? 0.9 : 0, () => task.delivered?.artifact_id as string | undefined)
    const artifact_id = delivered ?? random.pick<string>(task.artifacts.length > 0 ? task.artifacts : ['art_none'])
    const verdict = random.weighted([
      [4, 'approved'],
      [5, 'changes_requested'],
      [1, 'rejected'],
    ])
    const version = { artifact_version: some(0.5, () => record.docs.get(`collaboration.artifact_head/${artifact_id}`)?.value.version) }
    const input =
      op === 'review.submit'
        ? { verdict, requested_changes: ['more'], comments: [{ severity: 'nit', body: message(id) }] }
        : { severity: 'nit', body: message(id) }
    return { as, op, input: { task_id: task.id, artifact_id, ...version, ...input } }
  }

  function delegate(id: number, task: any): Made {
    const spec = some(0.4, () => ({ goal: message(id) }))
    return { as: task.executor, op: 'ownership.delegate', input: { task_id: task.id, to: random.pick(agentsIn(task)), spec } }
  }

  /** Acts that are open to an actor whatever the state is. */
  function aside(id: number, task: any): Made {
    const { id: task_id, ownership, executor, artifacts } = task
    const own = { as: ownership.principal }
    return random.weighted<() => Made>([
      [2, () => ({ ...own, op: 'task.cancel', input: { task_id, reason: message(id) } })],
      [3, () => extend(task)],
      [1, () => ({ ...own, op: 'reviewer.remove', input: { task_id, user: REVIEWER } })],
      [1, () => ({ ...own, op: 'reviewer.add', input: { task_id, user: REVIEWER } })],
      [1, () => ({ ...own, op: 'task.reassign', input: { task_id, assignee: random.pick(agentsIn(task)) } })],
      [2, () => ({ as: ADMIN, op: 'ownership.transfer', input: { task_id, to: random.pick(agentsIn(task)) } })],
      [
        task.pending_checkpoint ? 4 : 0.1,
        () => ({ as: ADMIN, op: 'checkpoint.expire', input: { checkpoint_id: task.pending_checkpoint ?? 'ckpt_none' } }),
      ],
      [
        3,
        () => ({
          as: executor ?? ownership.principal,
          op: 'ledger.write',
          input: { task_id, key: random.pick(['a', 'b']), value: message(id), scope: some(0.2, () => 'org') },
        }),
      ],
      [
        artifacts.length > 0 ? 2 : 0.1,
        () => ({
          ...own,
          op: 'artifact.reference',
          input: { task_id, artifact_id: artifacts[0] ?? 'art_none', version: 'v1', as: random.pick(['input', 'output']) },
        }),
      ],
      [4, () => reading(task)],
    ])()
  }

  function extend({ id: task_id, ownership }: any): Made {
    const more = random.chance(0.6) ? { deadline: some(0.9, later) ?? null } : { max_duration: 'PT120M' }
    return { as: ownership.principal, op: 'task.extend', input: { task_id, ...more } }
  }

  function reading(task: any): Made {
    const task_id: string = task.id
    return random.pick<Made>([
      { as: person(task), op: 'task.get', input: { task_id } },
      { as: task.ownership.principal, op: 'task.list', input: { project_id: task.project_id } },
      { as: person(task), op: 'audit.replay', input: { task_id } },
      { as: ADMIN, op: 'audit.verify', input: { project_id: task.project_id } },
      ...(task.artifacts.length > 0
        ? [{ as: task.ownership.principal, op: 'artifact.get', input: { artifact_id: task.artifacts[0] } }]
        : []),
    ])
  }

  const isTakenOver = (task: any): boolean =>
    record.docs.get(`collaboration.checkpoint/${task.pending_checkpoint}`)?.value.takeover === true

  /** The next step by the draft's table, in most cases. */
  function onTask(id: number, task: any): Made {
    const { id: task_id, state, executor, ownership } = task
    // Just as its time is up: that is when people extend it.
    if (task.deadline !== null && !task.overdue && Date.parse(task.deadline) < now() + 10 * MINUTE_MS && random.chance(0.3))
      return extend(task)
    if (random.chance(0.2)) return aside(id, task)
    if (random.chance(state === 'in_progress' || state === 'blocked' ? (isAtWork ? 0.5 : 0.2) : 0.04)) return control(id, task)
    if (state === 'created') {
      const assignee = random.chance(0.9) ? random.pick(agentsIn(task)) : REVIEWER
      return { as: ownership.principal, op: 'task.assign', input: { task_id, assignee } }
    }
    if (state === 'assigned' && random.chance(0.85)) return { as: executor, op: 'task.start', input: { task_id } }
    if (state === 'assigned') return delegate(id, task)
    if (state === 'in_progress' && executor.startsWith('agent_') && random.chance(0.15)) return ask(id, task)
    if ((state === 'blocked' || state === 'review_ready') && random.chance(0.3)) return answer(id, task)
    if (state === 'in_progress')
      return random.weighted([
        [5, raise],
        [8, commit],
        [1, delegate],
      ])(id, task)
    if (state === 'blocked' && random.chance(isTakenOver(task) ? 0.6 : 0.05)) return edit(id, task)
    if (state === 'blocked' && random.chance(isTakenOver(task) ? 0.6 : 0.03))
      return { as: ownership.principal, op: 'task.return', input: { task_id, comment: message(id) } }
    if (state === 'blocked' && random.chance(0.1)) return decline(id, task)
    if (state === 'blocked') return resolve(id, task)
    if (state === 'review_ready') return review(id, task, random.chance(0.9) ? 'review.submit' : 'review.comment')
    return aside(id, task)
  }

  /** An agent that wants to decide, to pass for somebody else, and to see what is not its own. */
  function hostile(id: number, task: any): Made {
    const isForeign = task.project_id !== 'project_other'
    const mole = { as: HOSTILE, mustFail: true }
    const resolving = resolve(id, task, HOSTILE)
    return random.weighted<Made>([
      [3, { ...resolving, ...mole }],
      [2, { ...answer(id, task, HOSTILE), ...mole }],
      [1, { ...decline(id, task, HOSTILE), ...mole }],
      [task.artifacts.length > 0 ? 3 : 0.5, { ...review(id, task, 'review.submit', HOSTILE), ...mole }],
      [1, { ...mole, op: 'task.cancel', input: { task_id: task.id, reason: message(id) } }],
      [1, { ...mole, op: 'task.interrupt', input: { task_id: task.id } }],
      [1, { ...mole, op: 'task.amend', input: { task_id: task.id, text: message(id), intent: 'redirect' } }],
      [1, { ...mole, op: 'grant.add', input: { task_id: task.id, scope: 'shell:read', decision: 'allow', until: 'session' } }],
      [2, { ...resolving, ...mole, input: { ...resolving.input, by: task.ownership.principal } }],
      [1, { ...mole, op: 'ledger.write', input: { task_id: task.id, key: 'a', value: message(id), actor_id: task.ownership.principal } }],
      [1, { ...mole, op: 'checkpoint.expire', input: { checkpoint_id: task.pending_checkpoint ?? 'ckpt_none' } }],
      [isForeign ? 2 : 0, { ...mole, op: 'task.get', input: { task_id: task.id } }],
      [isForeign ? 2 : 0, { ...mole, op: 'task.start', input: { task_id: task.id } }],
    ])
  }

  /** Anybody tries anything on anything. */
  function confused(id: number, task: any): Made {
    const as = random.pick(['user_alice', 'user_bob', REVIEWER, 'agent_devin', 'agent_robin', 'agent_nemo', HOSTILE])
    const made = random.weighted<() => Made>([
      [2, () => resolve(id, task)],
      [2, () => answer(id, task)],
      [1, () => decline(id, task)],
      [2, () => commit(id, task)],
      [2, () => review(id, task, 'review.submit')],
      [1, () => raise(id, task)],
      [1, () => delegate(id, task)],
      [2, () => aside(id, task)],
      [2, () => control(id, task)],
      [1, () => ({ as, op: 'task.start', input: { task_id: task.id } })],
    ])()
    return made.as === null || random.chance(0.6) ? { ...made, as } : made
  }

  function administration(id: number): Plan {
    const all = Object.values(projects).flatMap(({ agents }) => agents)
    const off = all.filter((one) => record.docs.get(`identity.agent/${one}`)!.value.disabled)
    const agent = random.pick(off.length > 0 && random.chance(0.6) ? off : all)
    const { disabled } = record.docs.get(`identity.agent/${agent}`)!.value
    const keys = ofKind('identity.key/').filter((key) => key.subject === agent && key.revoked_at === null)
    const described = {
      as: ADMIN,
      op: 'identity/agent.update',
      input: { agent_id: agent, disabled: !disabled, description: message(id) },
      keyed: true,
    }
    if (disabled || (keys.length > 0 && random.chance(0.4))) return described
    if (keys.length > 0 && random.chance(0.4)) return { as: ADMIN, op: 'identity/key.revoke', input: { key_id: keys[0].id }, keyed: true }
    return { as: ADMIN, op: 'identity/key.issue', input: { subject: agent, label: message(id) }, keyed: true }
  }

  return {
    tasks,
    next(id) {
      if (random.chance(0.03)) return administration(id)
      const all = tasks()
      const active = all.filter(({ state }) => !isOver(state))
      // Often the one that somebody else is busy with: that is where calls meet.
      const hot = active.find((task) => task.id === last)
      const task =
        hot && random.chance(0.5)
          ? hot
          : random.chance(0.93) && active.length > 0
            ? random.pick(active)
            : all.length > 0
              ? random.pick(all)
              : undefined
      last = task?.id
      const isNew = task === undefined || (active.length < TASKS_MAX && random.chance(active.length < 2 ? 0.4 : 0.06))
      const made = isNew
        ? create(id)
        : random.weighted([
            [10, onTask],
            [1.2, hostile],
            [1.2, confused],
          ])(id, task)
      const op = made.op.includes('/') ? made.op : `collaboration/${made.op}`
      return { ...made, op, keyed: random.chance(0.85) }
    },
  }
}
