// Pages of other origins. A person's token is in them, and they may build HTML of what agents wrote.
import type { IncomingHttpHeaders } from 'node:http'
import type { BrowserGuard } from '#bindings/http/browser/browser-guard.ts'

/** Only pages send an Origin; `null` belongs to no page. */
export const isForeign = (headers: IncomingHttpHeaders, guard: BrowserGuard): boolean => guard.isForeignOrigin(headers)
