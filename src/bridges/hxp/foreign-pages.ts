// Pages of other origins. They have a person's token, and can build HTML from agents' texts.
import type { IncomingHttpHeaders } from 'node:http'
import type { BrowserGuard } from '#bindings/http/browser/browser-guard.ts'

/** Only pages send an Origin; `null` belongs to no page. */
export const isForeign = (headers: IncomingHttpHeaders, guard: BrowserGuard): boolean => guard.isForeignOrigin(headers)
