// The page in the browser: its files, and its shell for the paths of the page. Other paths are left to other handlers, so that a path
// of the API that does not exist is still answered in JSON.
import type { IncomingMessage, ServerResponse } from 'node:http'

export type PageFile = {
  readonly type: string
  /** Its name has its hash in it: it never changes. */
  readonly isFixed: boolean
  bytes(): Buffer
  /** Compressed when the page was built; null: it was not. */
  compressed(coding: 'br' | 'gzip'): Buffer | null
}
/** By path, such as /assets/page-1a2b.js; the shell is /index.html. */
export type PageFiles = ReadonlyMap<string, PageFile>

const SHELL = '/index.html'
/** The document that installs the page on a device: only it can register the service worker. */
const INSTALL = '/install'
const INSTALL_FILE = '/install.html'
const PAGES = /^\/(?:|(?:inbox|tasks|reviews|settings)(?:\/[^/]+)?|agents|grants|record(?:\/why\/[^/]+)?|insight|projects)$/
/** Whether the page itself shows something at this path. */
export const isPagePath = (path: string): boolean => PAGES.test(path)

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self'; connect-src 'self'; " +
  "manifest-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
const TRUSTED = "; require-trusted-types-for 'script'; trusted-types 'none'"

/** Every power that a page could ask a browser for, but passkeys. */
const denied = [
  'accelerometer',
  'autoplay',
  'bluetooth',
  'camera',
  'clipboard-read',
  'display-capture',
  'encrypted-media',
  'fullscreen',
  'gamepad',
  'geolocation',
  'gyroscope',
  'hid',
  'idle-detection',
  'local-fonts',
  'magnetometer',
  'microphone',
  'midi',
  'payment',
  'picture-in-picture',
  'screen-wake-lock',
  'serial',
  'storage-access',
  'usb',
  'web-share',
  'window-management',
  'xr-spatial-tracking',
]

const shellHeaders = {
  'content-security-policy': policy + TRUSTED,
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'permissions-policy': [
    ...denied.map((name) => `${name}=()`),
    'publickey-credentials-create=(self)',
    'publickey-credentials-get=(self)',
  ].join(', '),
} as const

const FOREVER = 'public, max-age=31536000, immutable'
/** Revalidated on every load: the file names the hashed files of this version. */
const ANEW = 'no-cache'

/**
 * Serves a request for the page and returns true; returns false for any other path. `headers` go on every response of the server; the
 * page's own headers override them.
 */
export function createPage(files: PageFiles, headers: Readonly<Record<string, string>>) {
  const fileAt = (path: string): PageFile | undefined => {
    if (isPagePath(path)) return files.get(SHELL)
    if (path === INSTALL) return files.get(INSTALL_FILE)
    return path === SHELL || path === INSTALL_FILE ? undefined : files.get(path)
  }
  return (request: IncomingMessage, response: ServerResponse): boolean => {
    const { method, url = '' } = request
    if (method !== 'GET' && method !== 'HEAD') return false
    const [path = ''] = url.split('?', 1)
    const file = fileAt(path)
    if (file === undefined) return false
    const isDocument = isPagePath(path) || path === INSTALL
    const { coding, body } = bodyFor(file, request.headers['accept-encoding'])
    response.writeHead(200, {
      ...headers,
      ...shellHeaders,
      // A service worker is registered by an address in a string; no other part of the page needs that.
      ...(path === INSTALL ? { 'content-security-policy': policy } : {}),
      'content-type': file.type,
      'content-length': body.length,
      'cache-control': file.isFixed ? FOREVER : ANEW,
      vary: 'accept-encoding',
      ...(coding === null ? {} : { 'content-encoding': coding }),
      ...(isDocument ? { 'content-language': 'en' } : {}),
    })
    response.end(method === 'HEAD' ? undefined : body)
    return true
  }
}

function bodyFor(file: PageFile, accepted: string | string[] | undefined): { coding: 'br' | 'gzip' | null; body: Buffer } {
  const encodings = String(accepted ?? '').toLowerCase()
  for (const coding of ['br', 'gzip'] as const) {
    const refused = new RegExp(`\\b${coding}\\s*;\\s*q=0(?:\\.0*)?(?:,|$)`)
    const bytes = encodings.includes(coding) && !refused.test(encodings) ? file.compressed(coding) : null
    if (bytes !== null) return { coding, body: bytes }
  }
  return { coding: null, body: file.bytes() }
}
