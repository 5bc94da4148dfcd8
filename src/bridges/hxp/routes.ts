// Every path below /hxp/v1.
import { commonRoutes, peopleRoutes, ruleRoutes } from './people.ts'
import { requestRoutes } from './agents.ts'
import type { Methods, Parts } from './route.ts'

/** `isObject`: the path names one object, which does not exist for callers without access. */
export type Found = { readonly methods: Methods; readonly id: string; readonly isObject: boolean }

const REQUESTS = '/hxp/v1/requests/'
const RULES = '/hxp/v1/delegation/rules/'
/** A valid id in a path. */
const anId = /^[A-Za-z0-9_-]{1,80}$/

type Table = {
  readonly fixed: Readonly<Record<string, Methods>>
  /** The path segments that can follow the id of a request. */
  readonly below: Readonly<Record<string, Methods>>
  readonly rule: Methods
}

export function tableOf(parts: Parts): Table {
  const requests = requestRoutes(parts)
  const people = peopleRoutes(parts)
  const rules = ruleRoutes(parts)
  const common = commonRoutes(parts)
  return {
    fixed: {
      '/hxp/v1/requests': requests.whole,
      '/hxp/v1/inbox': people.inbox,
      '/hxp/v1/delegation/rules': rules.whole,
      '/hxp/v1/stats': common.stats,
      '/hxp/v1/receipts/verify': common.verify,
    },
    below: {
      '': requests.one,
      resolve: people.resolve,
      cancel: requests.cancel,
      files: people.files,
      secret: requests.secret,
    },
    rule: rules.one,
  }
}

export function routesOf(parts: Parts): (path: string) => Found | null {
  const { below, rule, ...table } = tableOf(parts)
  const fixed = new Map<string, Found>(Object.entries(table.fixed).map(([path, methods]) => [path, { methods, id: '', isObject: false }]))

  return (path) => {
    const found = fixed.get(path)
    if (found) return found
    if (path.startsWith(REQUESTS)) {
      const slash = path.indexOf('/', REQUESTS.length)
      const id = slash === -1 ? path.slice(REQUESTS.length) : path.slice(REQUESTS.length, slash)
      const word = slash === -1 ? '' : path.slice(slash + 1)
      return anId.test(id) && Object.hasOwn(below, word) ? { methods: below[word]!, id, isObject: true } : null
    }
    const id = path.startsWith(RULES) ? path.slice(RULES.length) : ''
    return anId.test(id) ? { methods: rule, id, isObject: true } : null
  }
}
