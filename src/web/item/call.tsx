// A tool call at the gate: the facts that Countersign knows, and arguments that are too long for the question.
import { useQuery } from '@tanstack/react-query'
import { Failed, Skeleton } from '../parts/states.tsx'
import { bytesOf, Said } from '../parts/text.tsx'
import { hex } from '../review/bytes.ts'
import { call } from '../server/client.ts'
import type { Item } from '../server/types.ts'
import { Arguments, isObject } from './arguments.tsx'

/** Fields of the details that the sections below show. */
export const CALL_FACTS = ['rule', 'call_id', 'changed', 'arguments_file']

type ArgumentsFile = { readonly size: number; readonly sha256: string }
function fileIn(item: Item): ArgumentsFile | null {
  const { details } = item.card.payload
  const file = isObject(details) ? details['arguments_file'] : null
  if (item.facts.call === null || !isObject(file)) return null
  const { size, sha256 } = file
  return typeof size === 'number' && typeof sha256 === 'string' ? { size, sha256 } : null
}

/** Null: the question holds all arguments itself. */
export function useLongArguments(item: Item) {
  const file = fileIn(item)
  const query = useQuery({
    queryKey: ['item', item.request_id, 'arguments'],
    enabled: file !== null,
    async queryFn(): Promise<unknown> {
      const { text } = await call('execution/request.arguments', { request_id: item.request_id })
      const digest = hex(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))
      if (digest !== file?.sha256) throw new Error('The arguments are not those that the question names.')
      return JSON.parse(text)
    },
    staleTime: Infinity,
  })
  return file === null ? null : { file, query }
}
export type LongArguments = ReturnType<typeof useLongArguments>

export function WholeArguments({ long }: { readonly long: LongArguments }) {
  if (long === null) return null
  const { file, query } = long
  return (
    <section className="exact" aria-label="Arguments" data-testid="item-arguments">
      <header>
        Arguments
        <span className="grow" />
        <span className="note">{bytesOf(file.size)}, complete; the agent wrote them</span>
      </header>
      <p className="note mono">SHA-256 {file.sha256}</p>
      {query.error ? (
        <Failed what="The arguments" error={query.error} again={() => void query.refetch()} />
      ) : query.isPending ? (
        <Skeleton />
      ) : (
        <Arguments of={query.data} />
      )}
    </section>
  )
}

export function CallFacts({ item }: { readonly item: Item }) {
  const { call: of } = item.facts
  if (of === null || of === undefined) return null
  const isOpen = item.ended === null
  return (
    <>
      <dt>Tool</dt>
      <dd>
        <Said mono>{`${of.server}/${of.tool}`}</Said>
        {of.changed && (
          <p data-testid="call-changed">Its definition has changed. Nothing runs until an owner of the project trusts the new one.</p>
        )}
      </dd>
      <dt>Rule</dt>
      <dd>{of.rule === null ? 'No rule names it' : <Said mono>{of.rule}</Said>}</dd>
      {isOpen && (
        <>
          <dt>Waiting</dt>
          <dd data-testid="call-waiting">
            {of.unattended
              ? 'Nobody waits for the answer. If you approve, it runs when the agent makes the same call again.'
              : 'The agent waits for the answer'}
          </dd>
        </>
      )}
    </>
  )
}
