// `login`, `whoami`, `logins`, `logout`: an identity is stored once, shown, listed and forgotten.
import { hostname } from 'node:os'
import { limits } from '#kernel/limits.ts'
import { URL_USUAL } from '../../server/settings/config.ts'
import { CliError, usage } from '../exit-codes.ts'
import { flag } from '../derive/flags.ts'
import { installationAt, openHttpRemote, refuseAbsent } from '../remote/http.ts'
import { readInput } from '../input/read-input.ts'
import { forgetLogins, readLogins, storeLogin, type Login } from '../remote/logins.ts'
import { askSecret, askText, isInteractive } from '../input/prompts.ts'
import { adminKeyIn, dataFolder, isLocal, shownFolder, targetOf, urlOf } from '../remote/credentials.ts'
import { show, writeJson } from '../output/render.ts'
import { spec, type Context, type Spec } from '../derive/command.ts'
import { tableOf } from '../terminal.ts'
import { escapeControl } from '../output/safe-text.ts'

type Me = { readonly id: string; readonly kind: string }

const login = spec('login', 'Log in at a server: its address and your key are stored, readable by you alone.', {
  isLocal: true,
  flags: [
    flag('as', 'id', "on the server's machine: log in as this person, with a key that the admin key of its data folder issues"),
    flag('link', null, 'print a link that signs a browser in, once, and store nothing; for administrators and owners'),
    flag('next', 'path', 'with --link: the page to open then, such as /inbox'),
  ],
  examples: [
    'countersign login --as user_owner',
    'countersign login --link --next /inbox',
    'countersign login --url https://tasks.example.com',
    'countersign login --url https://tasks.example.com < my.key',
  ],
  async run(context, given) {
    const as = given.get('as') as string | undefined
    const next = given.get('next') as string | undefined
    if (given.get('link') === true) return link(context, as === undefined || as.includes('_') ? as : `user_${as}`, next)
    if (next !== undefined) throw usage('--next goes with --link')
    return as === undefined ? withKey(context) : asPerson(context, as.includes('_') ? as : `user_${as}`)
  },
})

/** Prints a browser sign-in link for the caller or another person, using the stored login. */
async function link(context: Context, as: string | undefined, next: string | undefined): Promise<void> {
  if (next !== undefined && !/^\/(?!\/)/.test(next)) throw usage('--next is a path of the server, such as /inbox')
  const remote = await context.remote()
  const user_id = as ?? (await remote.call('identity/me.get', {})).id
  const issued = await remote.call('identity/login.issue', { user_id })
  const { token, expires_at } = issued
  const base = remote.isOffline ? await urlFor(context) : remote.where
  const whole = issued.link ?? `${base.replace(/\/+$/, '')}/login?token=${token}`
  const url = `${whole}${next === undefined ? '' : `&next=${encodeURIComponent(next)}`}`
  if (context.json) return writeJson(context, { user_id, url, expires_at })
  context.io.out.write(`${url}\n`)
}

async function withKey(context: Context): Promise<void> {
  const url = await urlFor(context)
  const key = (await keyFor(context, url)).trim()
  if (key === '')
    throw usage(
      'there is no key to log in with',
      "on the server's machine `countersign login --as user_owner` needs none; an owner issues keys with `countersign key issue`",
    )
  const server = openHttpRemote(url, key, { UNAUTHENTICATED: `${url} does not accept this key; nothing was stored` })
  const me = await server.call('identity/me.get', {})
  await server.close()
  await saveLogin(context, { url, installation: await installationAt(url), id: me.id, key, issued: false }, me)
}

/** Logs in with one command, for users who can read the data folder. Ignores the stored login, so it also replaces a stale one. */
async function asPerson(context: Context, subject: string): Promise<void> {
  const { io, globals } = context
  const folder = dataFolder(io, globals)
  const shown = shownFolder(io, folder)
  const url = await localUrl(context)
  const adminKey = adminKeyIn(folder)
  if (adminKey === null)
    throw usage(
      `there is no admin.key in ${shown} that you may read`,
      `run this on the server's machine, in the folder where it was started, or name its data folder: COUNTERSIGN_DATA=<folder>`,
    )
  await refuseAbsent(url)
  const admin = openHttpRemote(url, adminKey, {
    UNAUTHENTICATED: `the admin.key in ${shown} is not that of the server at ${url}: name its data folder with COUNTERSIGN_DATA, or its address with --url`,
    NOT_FOUND: '`countersign user list` shows the people there are',
  })
  try {
    const label = `login on ${hostname()}`.slice(0, limits.labelCharsMax)
    const key = (await admin.call('identity/key.issue', { subject, label })).key!
    const server = openHttpRemote(url, key)
    const me = await server.call('identity/me.get', {})
    await server.close()
    const replaced = await saveLogin(context, { url, installation: await installationAt(url), id: me.id, key, issued: true }, me)
    // The former login's key was only for that login. A key that is gone already needs no revocation.
    if (replaced?.issued === true)
      await admin.call('identity/key.revoke', { key_id: `key_${replaced.key.split('_')[1]}` }).catch((error: unknown) => {
        if (!(error instanceof CliError)) throw error
      })
  } finally {
    await admin.close()
  }
}

async function saveLogin(context: Context, login: Login, me: Me): Promise<Login | null> {
  const { file, replaced } = await storeLogin(context.io, login)
  if (context.json) writeJson(context, { url: login.url, installation: login.installation, id: me.id, kind: me.kind, file })
  else {
    const message = `logged in at ${login.url} as ${escapeControl(me.id)} (${escapeControl(me.kind)}); stored in ${file}`
    context.io.out.write(`${context.paint('green', '✔')} ${message}\n`)
  }
  return replaced
}

async function localUrl({ io, globals }: Context): Promise<string> {
  const named = globals.url ?? io.env['COUNTERSIGN_URL']
  if (named) return urlOf(named, '--url')
  const current = (await readLogins(io).catch(() => null))?.current ?? null
  return current !== null && isLocal(current) ? current : URL_USUAL
}

async function urlFor({ io, globals }: Context): Promise<string> {
  const named = globals.url ?? io.env['COUNTERSIGN_URL']
  if (named) return urlOf(named, '--url')
  const usual = (await readLogins(io).catch(() => null))?.current ?? URL_USUAL
  return isInteractive(io) && globals.apiKey === undefined ? urlOf(await askText(io, 'Address of the server', usual), 'the address') : usual
}

/** Never from the command line of a shared machine if it can be helped: others see it there. */
async function keyFor({ io, globals }: Context, url: string): Promise<string> {
  if (globals.apiKey !== undefined) return globals.apiKey
  if (isInteractive(io)) return askSecret(io, `Key for ${url}`)
  return (await readInput(io, '-', limits.headerBytesMax)).toString()
}

const list = spec('login list', 'List the servers that you are logged in at.', {
  isLocal: true,
  examples: ['countersign login list'],
  async run(context) {
    const { io, json, paint, paintErr } = context
    const { current, all } = await readLogins(io)
    // With several installations at one address, take the most recent login.
    const last = all.findLast(({ url }) => url === current)
    const items = all.map((login) => ({ url: login.url, installation: login.installation, id: login.id, current: login === last }))
    if (json) return writeJson(context, { items })
    if (items.length === 0) return void io.err.write(`${paintErr('dim', 'you are not logged in at any server')}\n`)
    const rows = items.map((item) => [item.url, item.id ?? '-', item.current ? 'yes' : 'no', item.installation ?? '-'])
    io.out.write(
      tableOf(
        ['SERVER', 'AS', 'CURRENT', 'INSTALLATION'].map((title) => ({ title })),
        rows,
        io.out,
        paint,
      ),
    )
  },
})

const logout = spec('logout', 'Forget the login of one server, the current one by default, or of all.', {
  isLocal: true,
  flags: [flag('all', null, 'forget every stored login')],
  examples: ['countersign logout', 'countersign logout --url https://tasks.example.com', 'countersign logout --all'],
  async run(context, given) {
    const { io, globals } = context
    const named = globals.url ?? io.env['COUNTERSIGN_URL']
    const isAll = given.get('all') === true
    const url = isAll ? null : named ? urlOf(named, '--url') : (await readLogins(io)).current
    const gone = url === null && !isAll ? [] : await forgetLogins(io, url)
    const left = isAll ? [] : (await readLogins(io)).all
    if (context.json) return writeJson(context, { forgotten: gone.map(({ url: of, id }) => ({ url: of, id })), left: left.length })
    if (gone.length === 0) return void io.out.write(url === null ? 'there was no login to forget\n' : `there was no login for ${url}\n`)
    for (const login of gone) io.out.write(`logged out at ${login.url}${login.id === null ? '' : ` (${escapeControl(login.id)})`}\n`)
    const rest = left.length === 0 ? '' : `; still logged in at ${left.map((login) => login.url).join(', ')}`
    io.out.write(`a key itself stays valid until \`countersign key revoke\`${rest}\n`)
  },
})

const whoami = spec('whoami', 'Show which server you use, and as whom.', {
  async run(context) {
    const remote = await context.remote()
    const me = await remote.call('identity/me.get', {})
    const source = remote.isOffline ? 'the data folder' : (await targetOf(context.io, context.globals)).source
    await show(context, 'me.get', { ...me, server: remote.where, key_from: source })
  },
})

export const loginSpecs: readonly Spec[] = [login, list, logout, whoami]
