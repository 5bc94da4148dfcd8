// The next steps after a start: lines to copy into another terminal.
import { resolve } from 'node:path'
import { shellQuote } from '../cli/output/safe-text.ts'
import { URL_USUAL } from './settings/config.ts'
import { OWNER } from './folder/first-start.ts'

type Started = { readonly url: string; readonly data: string; readonly hasOwner: boolean; readonly hasKey: boolean }
type Step = readonly [command: string, message: string]

/** `client` is how the command line is called here. */
export function nextSteps({ url, data, hasOwner, hasKey }: Started, client: string, cwd: string): string {
  // The default folder is found without a flag.
  const places = [
    ...(url === URL_USUAL ? [] : [`COUNTERSIGN_URL=${url}`]),
    ...(data === resolve(cwd, 'data') ? [] : [`COUNTERSIGN_DATA=${shellQuote(data)}`]),
  ]
  const steps: Step[] = [
    [`${client} doctor`, 'check the installation'],
    [`${client} --help`, 'list the commands'],
  ]
  if (!hasKey) steps.unshift([`${client} admin-key`, "make an admin key here, with this server's COUNTERSIGN_DATABASE and secret"])
  else if (hasOwner) steps.unshift([`${client} login --as ${OWNER}`, 'log in as the owner'])
  if (places.length > 0) steps.unshift([`export ${places.join(' ')}`, 'where this server is'])
  const width = Math.max(...steps.map(([command]) => command.length))
  return `Next, in another terminal:\n${steps.map(([command, message]) => `  ${command.padEnd(width)}  # ${message}\n`).join('')}`
}
