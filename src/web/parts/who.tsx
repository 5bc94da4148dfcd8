// Marks of actors: people are circles, agents squares, the system a diamond. Shape, not only colour.
import { useMyName } from '../server/names.ts'

const initials = (name: string): string => {
  const words = name
    .replace(/^(?:user|agent)_/, '')
    .split(/[\s_-]+/)
    .filter((word) => word !== '')
  const two = words.length > 1 ? `${words[0]!.charAt(0)}${words.at(-1)!.charAt(0)}` : (words[0] ?? '?').slice(0, 2)
  return words.length > 1 ? two.toUpperCase() : two.charAt(0).toUpperCase() + two.slice(1)
}
export type Sort = 'person' | 'agent' | 'system'
export const sortOf = (id: string): Sort =>
  id === 'agent_system' || id.startsWith('system') || id === 'system' ? 'system' : id.startsWith('agent_') ? 'agent' : 'person'

type Props = { readonly name: string; readonly sort: Sort; readonly large?: boolean }
export function Who({ name, sort, large = false }: Props) {
  const myName = useMyName()
  return (
    <span className={`who ${sort === 'person' ? '' : sort}${large ? ' lg' : ''}`} aria-hidden="true">
      {sort === 'system' ? '◆' : initials(name.toLowerCase() === 'you' ? myName : name)}
    </span>
  )
}
