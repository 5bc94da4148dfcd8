// Agents that are told by HTTP. Laws of their messages: each is posted as it stands in the mailbox of its run and in its order, and none counts as
// accepted that no receiver took.
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Group } from '#kernel/log/backend.ts'
import type { MemoryDisk } from '#stores/memory.ts'
import type { Processes } from './processes.ts'
import { ATTEMPTS_MAX, GONE } from './fates.ts'
import type { Fail } from './record.ts'

const MAILBOX = 'delegation.mailbox/'
const POSTING = 'delegation.posting/'
type Post = {
  readonly run: any
  readonly attempt: number
  readonly messages: readonly [{ readonly number: number; readonly kind: string }]
}

export type HookedAgents = {
  /** A post of the server arrives. */
  judgePost(post: Post): void
  /** The agent has it, whether or not the server hears of that. */
  take(post: Post, isHeard: boolean): void
  judgeGroup(group: Group): void
  judgeEnd(): void
}

export function createHookedAgents(disk: MemoryDisk, processes: Processes, fail: Fail): HookedAgents {
  const sent = new Map<string, string>()
  const taken = new Set<string>()
  const postings = new Map<string, any>()
  /** After a jump of the clock by weeks the log of a message goes before its last attempt. */
  const forgotten = new Set<string>()
  const idOf = ({ run, messages: [{ number }] }: Post): string => `${run.id}/${number}`

  const waitingIn = (run_id: string): readonly { number: number }[] =>
    JSON.parse(disk.docs.get(MAILBOX + run_id)?.text ?? '{"messages":[]}').messages
  const isWaiting = (run_id: string, number: number): boolean => waitingIn(run_id).some((one) => one.number === number)

  function judgePosting(posting: any): void {
    const id = `${posting.run_id}/${posting.number}`
    postings.set(id, posting)
    const { state, attempts, recent } = posting
    if (state === 'accepted' && !taken.has(id)) fail(`message ${id} counts as accepted, and no receiver took it`)
    // Its run ended between two attempts.
    const isWithdrawn = recent.at(-1)?.error?.includes('withdrawn') === true && !isWaiting(posting.run_id, posting.number)
    // An attempt whose outcome the disk had no room for counts for the outbox and is missing here.
    if (state === 'given_up' && attempts < ATTEMPTS_MAX - 1 && recent.at(-1)?.status !== GONE && !isWithdrawn && !forgotten.has(id))
      fail(`message ${id} is given up too early`)
  }

  return {
    judgePost(post) {
      const id = idOf(post)
      const [message] = post.messages
      if (sent.get(id) !== canonical(message)) fail(`message ${id} is posted otherwise than it stands in the mailbox`)
      // An agent may also come for its messages: then one that it holds waits for its acknowledgement alone.
      const isHanded = (number: number): boolean => processes.wasHanded(post.run.id, number)
      const earlier = waitingIn(post.run.id).find(({ number }) => number < message.number && !isHanded(number))
      if (earlier !== undefined) fail(`message ${id} is posted while message ${earlier.number} waits`)
    },
    take(post, isHeard) {
      if (isHeard) taken.add(idOf(post))
      processes.told(post.run, post.attempt, post.messages[0])
    },
    judgeGroup({ create, update, remove }) {
      for (const key of remove) {
        if (!key.startsWith(POSTING)) continue
        const [run_id, number] = key.slice(POSTING.length).split('/') as [string, string]
        forgotten.add(`${run_id}/${Number(number)}`)
        postings.delete(`${run_id}/${Number(number)}`)
      }
      for (const { key, text } of [...create, ...update]) {
        if (key.startsWith(POSTING)) judgePosting(JSON.parse(text!))
        if (!key.startsWith(MAILBOX)) continue
        const { id, messages } = JSON.parse(text!)
        for (const message of messages) sent.set(`${id}/${message.number}`, canonical(message))
      }
    },
    judgeEnd() {
      for (const [id, { state }] of postings) if (state === 'waiting') fail(`message ${id} is neither accepted nor given up`)
    },
  }
}
