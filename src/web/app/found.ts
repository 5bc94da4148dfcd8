// Things that the palette finds by their words: items of the inbox, tasks, agents and projects.
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { useLocation } from 'wouter'
import { useProject } from '../parts/project.tsx'
import { call } from '../server/client.ts'
import { useAgents, useLatestTasks } from '../server/names.ts'
import { stateLabel, titleOf } from '../tasks/states.ts'
import type { Command } from './commands.ts'

const EACH_MAX = 6
const PAUSE_MS = 150
const WORDS_MIN = 2

function useSettledText(text: string): string {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}

export type Found = Omit<Command, 'group'> & {
  readonly group: 'Inbox' | 'Tasks' | 'Agents' | 'Projects'
  readonly id: string
  readonly note: string
}
export function useFound(typed: string): { readonly found: readonly Found[]; readonly isLooking: boolean } {
  const [, go] = useLocation()
  const text = typed.trim().toLowerCase()
  const isAsked = text.length >= WORDS_MIN
  const settled = useSettledText(text)
  const items = useQuery({
    queryKey: ['palette', settled],
    queryFn: async () => (await call('execution/inbox.list', { text: settled, view: 'row', limit: EACH_MAX })).items,
    enabled: settled.length >= WORDS_MIN,
  })
  const tasks = useLatestTasks().data ?? []
  const agents = useAgents().data ?? []
  const { projects, choose } = useProject()
  if (!isAsked) return { found: [], isLooking: false }
  const has = (...texts: readonly string[]): boolean => text.split(/\s+/).every((word) => texts.join(' ').toLowerCase().includes(word))
  const found: Found[] = [
    ...(settled === text ? (items.data ?? []) : []).map(({ request_id, title, agent }) => ({
      group: 'Inbox' as const,
      id: request_id,
      title,
      note: agent.name ?? agent.id,
      run: () => go(`/inbox/${request_id}`),
    })),
    ...tasks
      .filter(({ id, spec }) => has(spec.goal, id))
      .slice(0, EACH_MAX)
      .map((task) => ({
        group: 'Tasks' as const,
        id: task.id,
        title: titleOf(task.spec.goal).title,
        note: stateLabel(task),
        run: () => go(`/tasks/${task.id}`),
      })),
    ...agents
      .filter(({ id, name }) => id !== 'agent_system' && has(name, id))
      .slice(0, EACH_MAX)
      .map(({ id, name }) => ({ group: 'Agents' as const, id, title: name, note: id, run: () => go('/agents') })),
    ...projects
      .filter(({ id, name }) => has(name, id))
      .slice(0, EACH_MAX)
      .map(({ id, name }) => ({
        group: 'Projects' as const,
        id,
        title: name,
        note: 'its tasks',
        run: () => {
          choose(id)
          go('/tasks')
        },
      })),
  ]
  return { found, isLooking: settled !== text || items.isFetching }
}
