// Votes of the required reviewers on one delivered version (HLP, review_policy): the voters, and the outcome.
import { speaksFor, type Actor } from '#kernel/declare/access.ts'
import type { Static } from '#kernel/declare/schema.ts'
import type { Task, Verdict } from '../schema.ts'

export type Policy = NonNullable<Task['spec']['review_policy']>
export type Votes = NonNullable<Task['votes']>
type Voted = Pick<Votes[number], 'verdict'>

/** A rejection ends it, before enough approvals, before a wish for changes. */
export function outcomeOf({ required_reviewers, quorum }: Policy, votes: readonly Voted[]): Static<typeof Verdict> | 'pending' {
  const has = (verdict: Voted['verdict']): boolean => votes.some((vote) => vote.verdict === verdict)
  const approvals = votes.filter(({ verdict }) => verdict === 'approved').length
  if (has('rejected')) return 'rejected'
  if (approvals >= neededIn({ required_reviewers, quorum })) return 'approved'
  return has('changes_requested') ? 'changes_requested' : 'pending'
}

export function neededIn({ required_reviewers: { length }, quorum }: Policy): number {
  if (quorum === 'any') return 1
  return quorum === 'all' ? length : Math.floor(length / 2) + 1
}

/**
 * The required reviewer for whom an actor votes; null: none. One person has one vote: a required reviewer votes as themself, a substitute
 * for a reviewer whose vote is missing, or again for the same reviewer.
 */
export function voiceOf({ required_reviewers }: Policy, votes: Votes, actor: Actor, project_id: string): string | null {
  if (required_reviewers.includes(actor.id)) return actor.id
  const vote = votes.find(({ by }) => by === actor.id)
  const isOpen = (who: string): boolean => (vote ? vote.reviewer === who : votes.every(({ reviewer }) => reviewer !== who))
  return required_reviewers.find((who) => isOpen(who) && speaksFor(actor, who, project_id)) ?? null
}

export const withVote = (votes: Votes, vote: Votes[number]): Votes => [...votes.filter(({ reviewer }) => reviewer !== vote.reviewer), vote]
