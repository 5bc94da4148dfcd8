// Names of people, agents and projects by their ids. The server puts most of them beside the ids; the rest is looked up once.
import { createContext, createElement, useContext, useMemo, type ReactNode } from 'react'
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
const Names = createContext<NameOf>((id, given) => given ?? id ?? 'nobody')
/** Knows the names for everything inside it: a list has hundreds of places with a name, and each would look at three lists by itself. */
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
/** A name for an id: "you", the name where it is known, else the id itself. */
export const useNameOf = (): NameOf => useContext(Names)
export function useMyName(): string {
  const me = useMe().data
  const people = usePeople().data
  const named = me as { name?: string | null } | undefined
  return named?.name ?? people?.find(({ id }) => id === me?.id)?.name ?? me?.id ?? ''
}
export const capital = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1)
