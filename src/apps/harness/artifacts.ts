// An HTTP listener of a callee for its artifacts; a server serves them among its own paths.
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { artifactReply, writeReply } from '#bridges/hcp/artifacts.ts'
import { hostInUrl } from '../server/settings/config.ts'
import type { OpenHarness } from './harness.ts'

export type ArtifactOptions = {
  /** 127.0.0.1 by default; others reach it behind a proxy that ends TLS. */
  readonly host?: string
  /** 0 takes a free one. */
  readonly port?: number
  /** The public address, if it differs. */
  readonly origin?: string
}
export type ArtifactServer = { readonly origin: string; open(harness: OpenHarness): void; stop(): Promise<void> }

const REQUEST_MS = 10_000

export async function serveArtifacts({ host = '127.0.0.1', port = 0, origin }: ArtifactOptions): Promise<ArtifactServer> {
  let harness: OpenHarness | null = null
  const server = createServer({ requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS }, (request, response) => {
    request.resume()
    if (harness === null) return void response.writeHead(503).end()
    artifactReply(harness.kernel, request).then(
      (reply) => writeReply(response, reply, request.method === 'HEAD'),
      (error: unknown) => {
        harness!.report(error, 'an artifact could not be handed out')
        response.destroy()
      },
    )
  })
  server.listen(port, host)
  await once(server, 'listening')
  return {
    origin: origin ?? `http://${hostInUrl(host)}:${(server.address() as AddressInfo).port}`,
    open: (opened) => void (harness = opened),
    async stop() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}
