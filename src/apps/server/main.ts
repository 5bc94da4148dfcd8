// The process: flags in, a few lines out, signals, exit codes.
import { existsSync } from 'node:fs'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { dieOfErrors, quietAtTerminal, runProcess, stopOnSignal } from '../process.ts'
import { helpText, localOrigin, readConfig, type Config } from './settings/config.ts'
import { developmentBanner } from './identity/development.ts'
import { createLog, type Logger } from './log.ts'
import { isPageBuilt } from './page-files.ts'
import { nextSteps } from './next-steps.ts'
import { startServer, type Server } from './server.ts'
import { version } from '../version.ts'

const LINK_MINUTES = limits.loginMs / 60_000

async function run(config: Config, client: string): Promise<void> {
  // Files of this process are accessible to its own user only.
  process.umask(0o077)
  const log = createLog(config.log)
  const onFatal = dieOfErrors(log)
  if (config.dev) process.stderr.write(developmentBanner)
  const stopping = new AbortController()
  // A terminal gets plain lines. Otherwise stderr is the log, and a failed start adds only its reason.
  const progress = (text: string): void =>
    process.stderr.isTTY ? void process.stderr.write(`starting: ${text}\n`) : log.debug({}, `starting: ${text}`)
  const starting = startServer(config, { log, onFatal, signal: stopping.signal, progress })
  stopOnSignal(stopping, starting)

  // Without a certificate, SIGHUP keeps its usual effect: the terminal was closed, so the process ends.
  if (config.tls !== null)
    process.on(
      'SIGHUP',
      () =>
        void starting.then(
          (server) => server.renew(),
          () => undefined,
        ),
    )

  const server = await starting.catch((error: unknown) => {
    if (!stopping.signal.aborted) throw error
    log.info({ err: error }, 'stopped before it was ready')
    return process.exit(0)
  })
  if (stopping.signal.aborted) return
  // Never print the link into a log store: anyone who reads the logs could sign in as the owner.
  const way = config.link || process.stdout.isTTY ? await wayIn(server, log) : untold
  const { path: data, adminKey } = server.folder
  // With a shared database, only the server that created it has the key in its folder.
  const hasKey = existsSync(adminKey)
  const url = localOrigin(config, server.port)
  const steps = nextSteps({ url, data, hasOwner: way.hasLink, hasKey }, client, process.cwd())
  const key = hasKey ? `The admin key is in ${adminKey}` : `There is no admin key in ${data}: the first server of this database made it`
  const page = config.web === 'off' || isPageBuilt() ? '' : 'The page in the browser is not built here: `npm start` builds it.\n'
  // One write: a program that reads a pipe gets all of it with the first line.
  process.stdout.write(`countersign ready ${server.url}\n${way.message}\n${page}${key}\n${steps}`)
  log.info({ node: server.node, port: server.port, host: config.host, socket: config.socket, data, version }, 'ready')
}

const untold = {
  message: 'The login link of the owner is printed at a terminal only: start with --link, or make one with `countersign login --link`.',
  hasLink: true,
}

/** How the owner gets in. A disk without room for a link is no reason not to serve. */
async function wayIn(server: Server, log: Logger): Promise<{ readonly message: string; readonly hasLink: boolean }> {
  try {
    if (server.quiet) return { message: `Read-only: ${server.quiet.why}; ${server.quiet.next}.`, hasLink: false }
    const link = await server.ownerLink()
    if (link === null) return { message: 'There is no login link: the owner is switched off.', hasLink: false }
    return { message: `Log in as the owner in a browser (works once, ${LINK_MINUTES} minutes):\n${link}`, hasLink: true }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    log.warn({ code: error.code }, `no login link could be made: ${error.message}`)
    return { message: 'No login link could be made; the log says why.', hasLink: false }
  }
}

/** The commands that start the server and the CLI here, for messages. */
export type Called = { readonly server: string; readonly client: string }
const inClone: Called = { server: 'npm start --', client: 'bin/countersign' }

export async function main(argv: readonly string[], { server, client }: Called = inClone): Promise<void> {
  await runProcess(async () => {
    const invocation = readConfig(quietAtTerminal(argv), process.env)
    if (invocation.kind === 'help') process.stdout.write(helpText(server))
    else if (invocation.kind === 'version') process.stdout.write(`${version}\n`)
    else await run(invocation.config, client)
  })
}

if (import.meta.main) await main(process.argv.slice(2))
