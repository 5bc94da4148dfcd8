// The updates of one task: after each event that the caller can follow, the differences between two views are sent.
import type { Hub, Sink } from '#bindings/live/hub.ts'
import type { Identified } from '#bindings/shared/credentials.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { A2aError } from './failures.ts'
import { findWork, isEnded, isInterrupted, isRunId, viewOf, type A2aTask, type Door } from './task-view.ts'

export type Update = { readonly task: A2aTask } | { readonly statusUpdate: object } | { readonly artifactUpdate: object }

/** What changed between two views. The state comes last, because no update can follow an end. */
export function updatesBetween(before: A2aTask, after: A2aTask): Update[] {
  const { id: taskId, contextId } = after
  const known = new Map((before.artifacts ?? []).map((artifact) => [artifact.artifactId, artifact]))
  const changed = (after.artifacts ?? []).filter((artifact) => canonical(known.get(artifact.artifactId) ?? null) !== canonical(artifact))
  const isMoved = canonical(before.status) !== canonical(after.status)
  return [
    ...changed.map((artifact) => ({ artifactUpdate: { taskId, contextId, artifact, append: false, lastChunk: true } })),
    ...(isMoved ? [{ statusUpdate: { taskId, contextId, status: after.status } }] : []),
  ]
}

export type Following = {
  /** The task as it was first seen. */
  first(task: A2aTask): void
  update(updates: readonly Update[], task: A2aTask): void
  beat(): void
  end(error: A2aError | null): void
}
export type Watching = { readonly hub: Hub; readonly identified: Identified; errorOf(error: unknown): A2aError }

/** Follows the task until it has ended or is interrupted. The returned function stops it earlier. */
export async function followTask(door: Door, id: string, watching: Watching, to: Following, isPatient = false): Promise<() => void> {
  const stream = isRunId(id)
    ? { name: 'delegation/run.follow', input: { run_id: id, all: true } }
    : { name: 'collaboration/audit.follow', input: { task_id: id } }
  let seen: A2aTask | null = null
  let isOver = false
  let isStale = false
  let isLooking = false
  let leave = (): void => undefined

  function end(error: A2aError | null): void {
    if (isOver) return
    isOver = true
    leave()
    to.end(error)
  }
  async function look(): Promise<void> {
    isStale = true
    if (isLooking || isOver) return
    isLooking = true
    try {
      while (isStale && !isOver) {
        isStale = false
        const task = await viewOf(door, await findWork(door, id), { historyLength: 0, artifacts: true })
        if (isOver) return
        const isFirst = seen === null
        const updates = isFirst ? [] : updatesBetween(seen!, task)
        seen = task
        if (isFirst) to.first(task)
        else if (updates.length > 0) to.update(updates, task)
        const { state } = task.status
        if (isEnded(state) || (isInterrupted(state) && !(isFirst && isPatient))) end(null)
      }
    } catch (error) {
      end(watching.errorOf(error))
    } finally {
      isLooking = false
    }
  }
  const sink: Sink = {
    send(_, taken) {
      taken()
      // Await the first view, so that a refusal can still be the answer.
      if (seen === null) isStale = true
      else void look()
    },
    beat: () => to.beat(),
    end: ({ reason, message }) => end(reason === 'slow' ? null : new A2aError('UNAVAILABLE', message)),
  }
  const subscription = await watching.hub.subscribe({ ...stream, after: 'latest', ...watching.identified }, () => sink)
  leave = subscription.close
  if (isOver) leave()
  await look()
  return () => {
    isOver = true
    subscription.close()
  }
}
