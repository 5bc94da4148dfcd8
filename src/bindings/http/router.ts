// The router of the HTTP server: a path and a method lead to a route, and a route gets its request with the body that it asked for. It knows
// nothing of operations. A set of routes is an array of `Route`; `createHttp({ routes })` mounts further ones.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { transportFailure, type Failure, type Reply } from './responses.ts'

export type Exchange = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The URL without its query. */
  readonly path: string
  /** The body in the form that the route declares; undefined: there is none. */
  readonly body: Buffer | undefined
}

type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE'

export type Route = {
  readonly method: Method
  readonly path: string
  /** json: at most `bytesMax` bytes of a JSON content type. form: the fields of a form. ignored: read and discarded. own: the route reads it. Default: no body. */
  readonly body?: 'json' | 'form' | 'ignored' | 'own'
  /** Without it, `limits.bodyBytesMax`. */
  readonly bytesMax?: number
  /** A GET is also there for HEAD, unless this is false or another route is. */
  readonly head?: false
  /** Null: the route answers by itself. A thrown error becomes an error response. */
  answer(exchange: Exchange): Reply | null | Promise<Reply | null>
}

export type Found = Route | Failure

export type Router = {
  /** The path of an address; null if it cannot be read. */
  pathOf(url: string): string | null
  /** The route for a path and a method, or why there is none. */
  find(path: string, method: string): Found
}

/** `otherwise`: the route for a GET without a matching path, such as the pages of an application; null: none. */
export type Otherwise = (path: string) => Route | null

export function createRouter(routes: readonly Route[], otherwise: Otherwise = () => null): Router {
  const paths = new Map<string, Map<string, Route>>()
  for (const route of routes) {
    const methods = paths.get(route.path) ?? new Map<string, Route>()
    if (methods.has(route.method)) throw new Error(`there are two routes for ${route.method} ${route.path}`)
    methods.set(route.method, route)
    paths.set(route.path, methods)
  }
  for (const methods of paths.values()) {
    const get = methods.get('GET')
    if (get && get.head !== false && !methods.has('HEAD')) methods.set('HEAD', get)
  }

  return {
    pathOf(url) {
      if (paths.has(url)) return url
      // An address that no parser reads would fail later, in a route that looks for its query.
      if (!URL.canParse(url, 'http://localhost')) return null
      const end = url.search(/[?#]/)
      // A proxy can send the whole address.
      const path = (end === -1 ? url : url.slice(0, end)).replace(/^https?:\/\/[^/]*/i, '')
      if (!path.includes('%')) return path
      try {
        return decodeURI(path)
      } catch {
        return null
      }
    },
    find(path, method) {
      const methods = paths.get(path)
      const route = methods?.get(method)
      if (route) return route
      const page = methods || (method !== 'GET' && method !== 'HEAD') ? null : otherwise(path)
      if (page) return page
      if (!methods) return transportFailure(404, 'NOT_FOUND', `there is nothing at ${path.slice(0, 200)}`)
      const allow = [...methods.keys()].join(', ')
      return transportFailure(405, 'INVALID_REQUEST', `${method} is not possible here; use ${allow}`, { allow })
    },
  }
}

export const isRoute = (found: Found): found is Route => 'answer' in found
