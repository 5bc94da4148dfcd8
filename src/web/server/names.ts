// Names of people, agents and projects by their ids. The server returns most of them with the ids; the rest is looked up once.
import { createContext, createElement, useContext, useMemo, type ReactNode } from 'react'
import { useQueries, useQuery } from '@tanstack/react-query'
import { after, all, call, session } from './client.ts'
import type { Agent, User } from './types.ts'

export const useMe = () =>
  useQuery({
    queryKey: ['me'],
    queryFn: async () => {
      const me = await call('identity/me.get', {})
      session.announce(me)
      return me
    },
    staleTime: 60_000,
    // Retries until the server responds. A lost session is detected when the window gets the focus.
    refetchInterval: ({ state }) => (state.data === undefined && state.error && !session.isOut() ? 3_000 : false),
  })
/** One only reads here: an auditor everywhere, a viewer in their project. */
export function useReadsOnly(project_id?: string): boolean {
  const me = useMe().data
  if (me === undefined || me.owner) return false
  return me.role === 'auditor' || me.projects.some((one) => one.project_id === project_id && one.role === 'viewer')
}
export const usePeople = () =>
  useQuery({
    queryKey: ['people'],
    queryFn: () => all<User>((cursor) => call('identity/user.list', { limit: 200, ...after(cursor) })),
    staleTime: 60_000,
  })
export const useAgents = () =>
  useQuery({
    queryKey: ['agents'],
    queryFn: () => all<Agent>((cursor) => call('identity/agent.list', { limit: 200, ...after(cursor) })),
    staleTime: 30_000,
  })
export const useProjects = () =>
  useQuery({
    queryKey: ['projects'],
    queryFn: () => all((cursor) => call('identity/project.list', { limit: 200, ...after(cursor) })),
    staleTime: 60_000,
  })

/** The latest tasks of all projects that one sees. */
export const useLatestTasks = () =>
  useQuery({
    queryKey: ['tasks', 'latest'],
    queryFn: async () => (await call('collaboration/task.list', { all_projects: true, limit: 200 })).items,
    staleTime: 5_000,
  })
const GOALS_MAX = 40
/** The first lines of task goals by task id. Goals of tasks outside the latest page are fetched one by one. */
export function useGoals(ids: readonly (string | null)[]): ReadonlyMap<string, string> {
  const latest = useLatestTasks()
  const titles = new Map((latest.data ?? []).map(({ id, spec }) => [id, firstLine(spec.goal)]))
  const missing = [...new Set(ids)].filter((id) => id !== null && !titles.has(id)) as string[]
  const found = useQueries({
    queries: missing.slice(0, GOALS_MAX).map((id) => ({
      queryKey: ['task', id],
      queryFn: async () => (await call('collaboration/task.get', { task_id: id })).task,
      enabled: latest.data !== undefined,
      staleTime: 60_000,
      retry: false,
    })),
  })
  for (const { data } of found) if (data !== undefined) titles.set(data.id, firstLine(data.spec.goal))
  return titles
}
const firstLine = (goal: string): string => goal.trim().split('\n')[0]!

export type NameOf = (id: string | null | undefined, given?: string | null) => string
const Names = createContext<NameOf>((id, given) => given ?? id ?? 'nobody')
/** Provides names to its children: a list shows hundreds of names, and each would otherwise subscribe to three queries. */
export function WithNames({ children }: { readonly children: ReactNode }) {
  const me = useMe().data?.id
  const people = usePeople().data
  const agents = useAgents().data
  const nameOf = useMemo((): NameOf => {
    const names = new Map([...(agents ?? []), ...(people ?? [])].map(({ id, name }) => [id, name]))
    return (id, given) => {
      if (id === null || id === undefined) return 'nobody'
      if (id === me) return 'you'
      if (id === 'agent_system' || id === 'system' || id.startsWith('system:')) return 'System'
      return given ?? names.get(id) ?? id
    }
  }, [me, people, agents])
  return createElement(Names, { value: nameOf }, children)
}
/** The name of an id: "you", the known name, or the id itself. */
export const useNameOf = (): NameOf => useContext(Names)
export function useMyName(): string {
  const me = useMe().data
  const people = usePeople().data
  const named = me as { name?: string | null } | undefined
  return named?.name ?? people?.find(({ id }) => id === me?.id)?.name ?? me?.id ?? ''
}
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)
