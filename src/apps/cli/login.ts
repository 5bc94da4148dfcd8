// Who you are: stored once, shown, forgotten.
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { limits } from '#kernel/limits.ts'
import { URL_USUAL } from '../config.ts'
import { usage } from './exits.ts'
import { openServer } from './http.ts'
import { readInput } from './input.ts'
import { askSecret, askText, isInteractive } from './prompts.ts'
import { readStored, settingsFile, targetOf, urlOf, writeStored } from './settings.ts'
import { show, writeJson } from './show.ts'
import { spec, type Context, type Spec } from './spec.ts'
import { inert } from './text.ts'

type Me = { readonly id: string; readonly kind: string }

const login = spec('login', 'Store the address of a server and your key, readable by you alone.', {
  examples: ['countersign login', 'countersign login --url https://tasks.example.com', 'countersign login < data/admin.key'],
  async run(context) {
    const url = await urlFor(context)
    const key = (await keyFor(context, url)).trim()
    if (key === '') throw usage('there is no key', '`countersign key issue <subject>` issues one; the administrator may do that')
    const server = openServer(url, key, { UNAUTHENTICATED: `that is no valid key at ${url}; nothing was stored` })
    const me: Me = await server.call('identity/me.get', {})
    await server.close()
    const file = await writeStored(context.io, { url, key })
    if (context.json) return writeJson(context, { url, id: me.id, kind: me.kind, file })
    context.io.out.write(`${context.paint('green', '✔')} ${url} knows you as ${inert(me.id)} (${inert(me.kind)}); stored in ${file}\n`)
  },
})

async function urlFor({ io, globals }: Context): Promise<string> {
  const named = globals.url ?? io.env['COUNTERSIGN_URL']
  if (named) return urlOf(named, '--url')
  const usual = (await readStored(io).catch(() => null))?.url ?? URL_USUAL
  return isInteractive(io) && globals.apiKey === undefined ? urlOf(await askText(io, 'Address of the server', usual), 'the address') : usual
}

/** Never from the command line of a shared machine if it can be helped: others see it there. */
async function keyFor({ io, globals }: Context, url: string): Promise<string> {
  if (globals.apiKey !== undefined) return globals.apiKey
  if (isInteractive(io)) return askSecret(io, `Key for ${url}`)
  return (await readInput(io, '-', limits.headerBytesMax)).toString()
}

const logout = spec('logout', 'Forget the stored address and key.', {
  async run(context) {
    const file = settingsFile(context.io)
    const isStored = existsSync(file)
    await rm(file, { force: true })
    if (context.json) writeJson(context, { removed: isStored ? file : null })
    else if (!isStored) context.io.out.write('nothing was stored\n')
    else context.io.out.write(`${file} is gone; the key itself stays valid until \`countersign key revoke\`\n`)
  },
})

const whoami = spec('whoami', 'Show which server you talk to and who your key says you are.', {
  async run(context) {
    const remote = await context.remote()
    const me: Me = await remote.call('identity/me.get', {})
    const source = remote.isOffline ? 'the data folder' : (await targetOf(context.io, context.globals)).source
    await show(context, 'me.get', { ...me, server: remote.where, key_from: source })
  },
})

export const loginSpecs: readonly Spec[] = [login, logout, whoami]
