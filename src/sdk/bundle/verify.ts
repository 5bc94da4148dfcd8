// The verifier of bundles: offline, with a policy as the only thing that it trusts, in Node and in browsers. It names the first line that fails.
import { answerNow } from '#kernel/log/tree/asking.ts'
import { Unreadable } from '#kernel/log/tree/note.ts'
import { policyIn, type Policy } from '#kernel/log/tree/policy.ts'
import { type FirstLine } from '#kernel/log/bundle/bundle.ts'
import { createSha256, sha256HexOf, sha256Of } from '#kernel/log/bundle/sha256.ts'
import { beginJudging, checkpointIn, concludeJudging, judgeLine, type Judging } from './judging.ts'
import { Broken, firstLineIn, lastLineIn, middleLineIn } from './lines.ts'
import { lastTextOf, linesOf, type Bytes } from './read-lines.ts'

export type Voucher = { readonly name: string; readonly at: string }
/** Numbers of a project. */
export type Numbers = { readonly project_id: string; readonly from: number; readonly to: number }

export type BundleVerdict =
  | {
      readonly genuine: true
      readonly about: FirstLine['about']
      /** The log, and how many facts it had. */
      readonly origin: string
      readonly size: number
      /** Without them the log alone vouches. */
      readonly witnesses: readonly Voucher[]
      /** The bundle has every fact of the project with these numbers; null: it is a selection. */
      readonly complete: Numbers | null
      readonly facts: number
      readonly receipts: number
      readonly erased: number
    }
  | { readonly genuine: false; readonly line: number | null; readonly what: string }

/** Throws Unreadable for a policy that cannot be used. Never uses the network. */
export async function verifyBundle(bundle: Bytes | string, policyText: string): Promise<BundleVerdict> {
  const policy = answerNow(policyIn(policyText), sha256Of)
  if (policy.logs.length === 0) throw new Unreadable('the policy names no log: add a line `log <vkey>`')
  const bytes = typeof bundle === 'string' ? new Blob([bundle]) : bundle
  try {
    return await verdictOf(bytes, policy)
  } catch (error) {
    if (!(error instanceof Broken)) throw error
    return { genuine: false, line: error.line === LAST ? await countLines(bytes) : error.line, what: error.message }
  }
}

/** Stands for the number of the last line, which is read before the others. */
const LAST = -1

async function countLines(bundle: Bytes): Promise<number> {
  let count = 0
  for await (const { at } of linesOf(bundle)) count = at
  return count
}

async function verdictOf(bundle: Bytes, policy: Policy): Promise<BundleVerdict> {
  const lastText = await lastTextOf(bundle)
  const digest = createSha256()
  let judging: Judging | null = null
  for await (const { at, text, bytes, isLast } of linesOf(bundle)) {
    if (judging === null) {
      const first = firstLineIn(text)
      if (isLast) throw new Broken(1, 'nothing follows its first line')
      judging = beginJudging(policy, first, await checkpointIn(lastLineIn(lastText, LAST).checkpoint, first.origin, policy, LAST))
    } else if (isLast) {
      const verdict = concludeJudging(judging)
      // Last of all: a change is named where it is.
      const { lines, sha256 } = lastLineIn(text, at)
      if (lines !== at - 1 || sha256 !== sha256HexOf(digest)) throw new Broken(at, 'lines before it are missing, added or changed')
      return verdict
    } else await judgeLine(judging, middleLineIn(text, at), at)
    digest.update(bytes)
    digest.update(LINE_END)
  }
  throw new Broken(null, 'it has no lines')
}
const LINE_END = Uint8Array.of(10)
