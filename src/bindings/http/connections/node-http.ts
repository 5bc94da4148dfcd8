// Node's own HTTP, taken without `import`: importing node:http reads every name of it, one of which loads the client behind `fetch`, which
// nothing here uses. Taken like this, it is not loaded, which saves the server 4 MB. To delete this file, import the names from `node:http`.
const http = process.getBuiltinModule('node:http')
export const { STATUS_CODES } = http
export const createPlainServer = http.createServer
export const createTlsServer: (typeof import('node:https'))['createServer'] = (...args: unknown[]) =>
  (process.getBuiltinModule('node:https').createServer as (...all: unknown[]) => import('node:https').Server)(...args)
