// Requests and their answers as other protocols know them, behind the kernel's port.
import type { AnsweredItem, Requests } from '#kernel/ports/requests.ts'
import { mirroredItemId } from '../mirror/ids.ts'
import { reviewItemOf } from '../mirror/review-item.ts'
import { definedFields } from '#kernel/codec/strict-json.ts'
import { coveredBy } from './request-digest.ts'
import { signReceipt } from './receipt.ts'
import { Request } from '../schema.ts'
import { requestDigest, shownDigest } from './shown-request.ts'

const itemFor = (request: Request | null): AnsweredItem | null =>
  request && {
    risk: request.risk,
    digests: () => ({ subject_digest: requestDigest(request), shown_digest: shownDigest(request) }),
  }

export const requests: Requests = {
  request: (read, id) => read.raw(Request, id),
  cases: (read, project_id, requester, page) => read.list(Request, 'cases', [[project_id, requester]], page),
  async receipt(read, id, notary) {
    const ended = await read.raw(Request, id)
    if (!ended?.receipt) return null
    return { receipt: definedFields(await signReceipt(ended, read, { notary })), request: coveredBy(ended) }
  },
  async answer(read, id) {
    const asked = await read.maybe(Request, id)
    if (!asked?.receipt) return null
    const { payload, receipt } = asked
    return {
      id,
      title: 'item' in payload ? payload.item : '',
      scope: ('scope' in payload ? payload.scope : undefined) ?? '',
      result: receipt.result,
      by: receipt.completed_by,
      at: receipt.completed_at,
    }
  },
  itemOfCheckpoint: async (read, { id, request_id }) => itemFor(await read.raw(Request, request_id ?? mirroredItemId(id))),
  itemOfReview: async (read, task_id) => itemFor(await reviewItemOf(read, task_id)),
}
