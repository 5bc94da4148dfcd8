// Names of people, agents and projects by their ids. The server puts most of them beside the ids; the rest is looked up once.
import { useQuery } from '@tanstack/react-query'
import { after, all, call, session } from './client.ts'
import type { Agent, User } from './types.ts'

export const useMe = () =>
  useQuery({
    queryKey: ['me'],
    queryFn: () => call('identity/me.get', {}),
    staleTime: 60_000,
    // Until somebody answers; whether one is signed in is asked for when the window gets the focus.
    refetchInterval: ({ state }) => (state.data === undefined && state.error && !session.isOut() ? 3_000 : false),
  })
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

/** The goals of tasks, by their ids: of those that one sees lately. */
export const useGoals = (): ReadonlyMap<string, string> | undefined =>
  useQuery({
    queryKey: ['tasks', 'goals'],
    queryFn: async () => {
      const { items } = await call('collaboration/task.list', { limit: 200 })
      return new Map(items.map(({ id, spec }) => [id, spec.goal]))
    },
    staleTime: 5_000,
  }).data

export type NameOf = (id: string | null | undefined, given?: string | null) => string
/** A name for an id: "you", the name where it is known, else the id itself. */
export function useNameOf(): NameOf {
  const me = useMe().data?.id
  const people = usePeople().data
  const agents = useAgents().data
  return (id, given) => {
    if (id === null || id === undefined) return 'nobody'
    if (id === me) return 'you'
    if (id === 'agent_system' || id === 'system' || id.startsWith('system:')) return 'System'
    return given ?? people?.find((one) => one.id === id)?.name ?? agents?.find((one) => one.id === id)?.name ?? id
  }
}
export function useMyName(): string {
  const me = useMe().data
  const people = usePeople().data
  const named = me as { name?: string | null } | undefined
  return named?.name ?? people?.find(({ id }) => id === me?.id)?.name ?? me?.id ?? ''
}
export const capital = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1)
