// Requests and their answers as other protocols know them, behind the kernel's port.
import type { Requests } from '#kernel/ports/requests.ts'
import { Request } from '../schema.ts'

export const requests: Requests = {
  request: (read, id) => read.raw(Request, id),
  cases: (read, project_id, requester, page) => read.list(Request, 'cases', [[project_id, requester]], page),
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
}
