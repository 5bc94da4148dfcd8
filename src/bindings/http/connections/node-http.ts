// Node's own HTTP, taken without `import`: importing node:http reads every name of it, one of which loads the client behind `fetch`, which
// nothing here uses. Taken like this, it stays where it is, and the server is 4 MB smaller. Deleted, the names are imported.
const http = process.getBuiltinModule('node:http')
export const { STATUS_CODES } = http
export const createPlainServer = http.createServer
export const createTlsServer: (typeof import('node:https'))['createServer'] = (...args: unknown[]) =>
  (process.getBuiltinModule('node:https').createServer as (...all: unknown[]) => import('node:https').Server)(...args)
