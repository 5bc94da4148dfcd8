// The thread of an item: questions back, the agent's replies, and the votes of a quorum.
import { Ago } from '../parts/time.tsx'
import { plural, Said } from '../parts/text.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { capital, useNameOf } from '../server/names.ts'
import { useRequest } from './receipt.tsx'
import type { Item, Thread as Remarks, Votes } from '../server/types.ts'

export function Thread({ thread }: { readonly thread: Remarks }) {
  const nameOf = useNameOf()
  if (thread.length === 0) return null
  return (
    <section className="sect" aria-label="Asked back">
      <h2 className="h">
        Asked back <span className="note">{plural(thread.length, 'remark')}</span>
      </h2>
      <div className="thread" data-testid="item-thread">
        {thread.map(({ by, kind, text, at }, i) => (
          <div className="say" key={i}>
            <Who name={nameOf(by)} sort={kind === 'reply' ? 'agent' : sortOf(by)} />
            <div>
              <header>
                <b>
                  <bdi>{capital(nameOf(by))}</bdi>
                </b>
                <Ago at={at} />
                {kind === 'reply' && <span className="chip tiny">agent’s message</span>}
              </header>
              <p>
                <Said>{text}</Said>
              </p>
            </div>
          </div>
        ))}
      </div>
    </section>
  )
}

export function Quorum({ item, votes }: { readonly item: Item; readonly votes: Votes }) {
  const nameOf = useNameOf()
  const asked = useRequest(item.request_id).data?.request.quorum?.of
  if (item.quorum === null) return null
  const { n, of, voted } = item.quorum
  const names = asked?.map((id) => capital(nameOf(id))).join(', ')
  return (
    <section className="sect" aria-label="Votes" data-testid="item-quorum">
      <h2 className="h">
        Votes <span className="note">{`${voted} of ${n} needed. ${names === undefined ? `${of} people` : names} can vote.`}</span>
      </h2>
      <ul className="votes">
        {votes.map(({ by, result, reason, at }) => (
          <li className="row" key={by}>
            <Who name={nameOf(by)} sort="person" />
            <span className="grow">
              {capital(nameOf(by))}: <Said>{typeof result === 'string' ? result : JSON.stringify(result)}</Said>
              {reason !== undefined && (
                <>
                  , <Said>{reason}</Said>
                </>
              )}
            </span>
            <Ago at={at} />
          </li>
        ))}
        {votes.length === 0 && <li className="muted">Nobody has voted yet.</li>}
      </ul>
    </section>
  )
}
