// The import law: which folder may know which, and the forbidden names of the pure ones. The table is the one of ARCHITECTURE.md; each
// problem says what to do instead.
import { importsOf, scan, type Import, type Source, type Token } from './source.ts'

type Layer = {
  /** Other folders of src that it may import, as `#folder/...`. */
  readonly folders: readonly string[]
  /** Packages and built-in modules that any file in it may import. */
  readonly drivers: readonly string[] | 'any'
  /** Knows no clock, chance, network, disk or process. */
  readonly pure: boolean
}

export const layers: Readonly<Record<string, Layer>> = {
  kernel: { folders: [], drivers: [], pure: true },
  protocols: { folders: ['kernel'], drivers: [], pure: true },
  contracts: { folders: ['kernel', 'protocols'], drivers: [], pure: true },
  stores: {
    folders: ['kernel'],
    drivers: ['node:crypto', 'node:fs', 'node:fs/promises', 'node:os', 'node:path', 'node:sqlite', 'node:stream', 'pg'],
    pure: false,
  },
  bindings: {
    folders: ['kernel'],
    drivers: ['node:crypto', 'node:http', 'node:https', 'node:net', 'node:perf_hooks', 'node:stream', 'ws'],
    pure: false,
  },
  bridges: {
    folders: ['kernel', 'protocols', 'bindings', 'workers'],
    drivers: ['node:crypto', 'node:http', 'node:stream', 'ws'],
    pure: false,
  },
  devices: {
    folders: ['kernel', 'protocols', 'workers'],
    drivers: ['koffi', 'node:child_process', 'node:crypto', 'node:fs', 'node:os', 'node:timers/promises'],
    pure: false,
  },
  capabilities: {
    folders: ['kernel', 'protocols'],
    drivers: ['@modelcontextprotocol/client', '@modelcontextprotocol/client/stdio'],
    pure: false,
  },
  mcp: {
    folders: ['kernel', 'protocols'],
    drivers: ['@modelcontextprotocol/server', '@modelcontextprotocol/server/stdio', 'node:crypto', 'node:stream'],
    pure: false,
  },
  gate: {
    folders: ['kernel', 'capabilities', 'mcp'],
    drivers: [
      '@modelcontextprotocol/client',
      '@modelcontextprotocol/server',
      '@modelcontextprotocol/server/stdio',
      'node:child_process',
      'node:crypto',
      'node:stream',
    ],
    pure: false,
  },
  workers: { folders: ['kernel', 'protocols'], drivers: [], pure: false },
  sdk: { folders: ['kernel', 'protocols'], drivers: [], pure: false },
  agents: { folders: ['kernel', 'protocols', 'sdk', 'workers'], drivers: ['@agentclientprotocol/sdk', 'node:path'], pure: false },
  apps: {
    folders: [
      'kernel',
      'protocols',
      'contracts',
      'stores',
      'bindings',
      'bridges',
      'devices',
      'capabilities',
      'mcp',
      'gate',
      'workers',
      'agents',
      'sdk',
    ],
    drivers: 'any',
    pure: false,
  },
}

/** Imports that a pure folder may still have, each in one file and under these names only. */
export const doors: readonly { file: string; module: string; names: readonly string[] | 'any'; why: string }[] = [
  { file: 'kernel/declare/schema.ts', module: 'typebox', names: 'any', why: 'the one file that knows the schema library' },
  { file: 'kernel/declare/schema.ts', module: 'typebox/schema', names: ['Compile'], why: 'the same library' },
  { file: 'kernel/declare/schema-builders.ts', module: 'typebox', names: 'any', why: 'its types alone' },
  { file: 'kernel/log/canonical-json.ts', module: 'canonicalize', names: 'any', why: 'the one file that writes canonical JSON' },
  { file: 'kernel/declare/foreign-schema.ts', module: 'ajv', names: 'any', why: 'the one file for schemas that others wrote' },
  { file: 'kernel/declare/foreign-schema.ts', module: 'ajv/dist/2020.js', names: 'any', why: 'the same library, for the draft of 2020-12' },
  { file: 'kernel/foreign/linear-pattern.ts', module: 're2js', names: 'any', why: 'patterns that others wrote, in linear time' },
  { file: 'kernel/foreign/field-problem.ts', module: 'typebox/schema', names: ['Errors'], why: 'the page may not compile code' },
  {
    file: 'kernel/log/hash-chain.ts',
    module: 'node:crypto',
    names: ['hash', 'sign', 'verify', 'createPublicKey'],
    why: 'hashing is a function of its input',
  },
  {
    file: 'stores/disk-errors.ts',
    module: 'node:fs',
    names: ['closeSync', 'fstatSync', 'ftruncateSync', 'openSync', 'writeSync'],
    why: 'whether the disk has room again is asked while the one writer waits',
  },
  { file: 'stores/disk-errors.ts', module: 'node:os', names: ['constants'], why: 'the number of an exceeded quota has no name' },
  { file: 'sdk/transport/jsonrpc.ts', module: 'node:net', names: ['connect'], why: 'the one transport that browsers cannot have' },
  { file: 'bridges/hcp/link.ts', module: 'rabbitmq-client', names: 'any', why: 'the one file that speaks to the broker' },
  { file: 'workers/webhooks/address.ts', module: 'node:net', names: ['BlockList', 'isIP'], why: 'which addresses may be called' },
  { file: 'workers/webhooks/post.ts', module: 'node:net', names: ['isIP'], why: 'the same' },
  { file: 'workers/webhooks/post.ts', module: 'node:dns', names: ['lookup'], why: 'the one file that calls addresses that others chose' },
  { file: 'workers/webhooks/post.ts', module: 'node:http', names: ['request'], why: 'the same' },
  { file: 'workers/webhooks/post.ts', module: 'node:https', names: ['request'], why: 'the same' },
  {
    file: 'workers/notices/push.ts',
    module: 'node:crypto',
    names: ['createCipheriv', 'createECDH', 'createPrivateKey', 'hkdfSync', 'randomBytes', 'sign'],
    why: 'pushes are encrypted and signed',
  },
  { file: 'workers/notices/mail.ts', module: 'nodemailer', names: 'any', why: 'the one file that sends mail; loaded with the first one' },
  {
    file: 'workers/keys/push-keys.ts',
    module: 'node:crypto',
    names: ['generateKeyPairSync'],
    why: 'keys for pushes',
  },
  { file: 'workers/webhooks/agents.ts', module: 'node:crypto', names: ['createHmac'], why: 'messages to webhooks are signed' },
  {
    file: 'workers/keys/notary.ts',
    module: 'node:crypto',
    names: ['createHmac', 'createPrivateKey', 'createPublicKey', 'hash', 'hkdfSync', 'sign', 'verify'],
    why: 'the one file that signs, derives and seals with the keys of the server',
  },
  { file: 'workers/keys/notary.ts', module: 'node:util', names: ['promisify'], why: 'signatures are made on the threads of the runtime' },
  {
    file: 'workers/keys/notary.ts',
    module: 'jose',
    names: ['CompactEncrypt', 'compactDecrypt', 'importJWK'],
    why: 'answers are sealed as JWE, which agents of every language can open',
  },
  {
    file: 'workers/keys/log-key.ts',
    module: 'node:crypto',
    names: ['createPrivateKey', 'createPublicKey', 'sign', 'verify'],
    why: 'the one file that signs checkpoints with the key of the log, and checks signatures over them',
  },
  {
    file: 'workers/keys/key-ring.ts',
    module: 'node:crypto',
    names: ['createPrivateKey', 'createPublicKey', 'generateKeyPairSync'],
    why: 'signing keys are made and checked here',
  },
  { file: 'agents/a2a/card-key.ts', module: 'node:crypto', names: ['createPublicKey', 'verify'], why: 'cards of remote agents are signed' },
  {
    file: 'workers/keys/passkeys.ts',
    module: '@simplewebauthn/server',
    names: 'any',
    why: 'the one file that reads registrations of passkeys; loaded with the first one',
  },
  {
    file: 'workers/keys/passkeys.ts',
    module: '@simplewebauthn/server/helpers',
    names: 'any',
    why: 'the same library',
  },
  { file: 'agents/programs/child.ts', module: 'node:child_process', names: ['spawn'], why: 'the one file that starts programs of agents' },
  { file: 'agents/programs/kept-session.ts', module: 'node:crypto', names: ['randomUUID'], why: "the id of a program's session" },
  { file: 'agents/acp/work-folder.ts', module: 'node:child_process', names: ['execFile'], why: 'snapshots of the work folder by git' },
  {
    file: 'agents/acp/files.ts',
    module: 'node:fs/promises',
    names: ['lstat', 'open', 'realpath', 'stat'],
    why: 'files that an ACP agent reads and writes through its client',
  },
  {
    file: 'agents/acp/files.ts',
    module: 'node:fs',
    names: ['constants'],
    why: 'the flags of open: no link is followed, no pipe is waited for',
  },
  { file: 'agents/acp/work-folder.ts', module: 'node:crypto', names: ['createHash'], why: 'snapshots of the work folder by git' },
  {
    file: 'agents/acp/work-folder.ts',
    module: 'node:fs/promises',
    names: ['lstat', 'mkdir', 'rm'],
    why: 'snapshots of the work folder by git',
  },
  { file: 'agents/acp/work-folder.ts', module: 'node:os', names: ['tmpdir'], why: 'snapshots of the work folder by git' },
  { file: 'agents/acp/work-folder.ts', module: 'node:util', names: ['promisify'], why: 'snapshots of the work folder by git' },
  {
    file: 'capabilities/hacp.ts',
    module: 'node:net',
    names: ['connect', 'Socket'],
    why: 'the one file that speaks to a hardware daemon',
  },
  {
    file: 'capabilities/mcp-stdio.ts',
    module: 'node:child_process',
    names: ['spawn', 'ChildProcessWithoutNullStreams'],
    why: 'the one file that starts MCP servers',
  },
  {
    file: 'protocols/identity/authenticate.ts',
    module: 'node:crypto',
    names: ['timingSafeEqual'],
    why: 'secrets are compared in constant time',
  },
]

/** Files that import modules of the operator's own, each with its reason. */
export const computedImports: Readonly<Record<string, string>> = {
  'apps/device/plugin-process.ts': 'tools of a folder that the operator names at the start',
}

/** Files over the limit, each with its reason. One that fits again must leave this list. */
export const longFiles: Readonly<Record<string, string>> = {
  'kernel/limits.ts': 'a table: every bound with its reason',
  'protocols/collaboration/schema.ts': 'a table: the objects of the draft, field by field',
}
const LINES_MAX = 450

/** Everything that is wrong with one file of src. `path` is relative to src. */
export function problemsIn(path: string, text: string): string[] {
  const source = scan(text)
  const layer = layers[path.split('/')[0]!]
  if (!layer)
    return [`src/${path}: there is no rule for this folder; give it a row in test/support/laws/architecture.ts and in ARCHITECTURE.md`]
  const found = [
    ...importsOf(source).flatMap((one) => importProblems(path, layer, one)),
    ...(layer.pure ? impurities(source) : []),
    ...syntaxProblems(source),
    ...lengthProblems(path, text),
  ]
  return found.map((message) => `src/${path}${message}`)
}

// --- Imports ---------------------------------------------------------------------------------------------------------------

function importProblems(path: string, layer: Layer, { specifier, values, line }: Import): string[] {
  const problem = (message: string): string[] => [`:${line}: ${message}`]
  if (specifier === null && Object.hasOwn(computedImports, path)) return []
  if (specifier === null) return problem('a computed import cannot be checked; import by name, or pass what is needed as a parameter')
  if (specifier.startsWith('#')) return acrossProblems(path, layer, specifier).flatMap(problem)
  if (specifier.startsWith('.')) return insideProblems(path, specifier).flatMap(problem)
  const module = specifier
  if (layer.drivers === 'any' || layer.drivers.includes(module)) return []
  const door = doors.find((candidate) => candidate.file === path && candidate.module === module)
  if (!door) return problem(`${module} may not be imported here; ${insteadOf(module, path)}`)
  const foreign = door.names === 'any' ? [] : values.filter((name) => !door.names.includes(name))
  return foreign.length === 0
    ? []
    : problem(
        `only ${(door.names as string[]).join(', ')} of ${module} may be imported here, not ${foreign.join(', ')}; chance and keys are passed in`,
      )
}

function insteadOf(module: string, path: string): string {
  const home = doors.find((door) => door.module === module && door.file.startsWith('kernel/'))
  if (home) return `use what ${home.file} exports`
  if (layers[path.split('/')[0]!]?.pure)
    return 'a pure folder is given what it needs: a parameter, the context of decide, or a worker that acts on the fact'
  return 'a driver is a row in the table of test/support/laws/architecture.ts and in ARCHITECTURE.md'
}

function acrossProblems(path: string, layer: Layer, specifier: string): string[] {
  const own = path.split('/')[0]!
  const to = specifier.slice(1).split('/')[0]!
  if (!specifier.endsWith('.ts')) return [`${specifier} must end in .ts: Node runs the files as they are`]
  if (to === own) return [`${specifier} is in the same folder: write a relative path`]
  if (!layer.folders.includes(to)) {
    const may = layer.folders.length === 0 ? 'nothing else' : layer.folders.join(', ')
    return [`${own} may import ${may}, not ${to}; ${insteadOfFolder(own, to)}`]
  }
  return []
}

function insteadOfFolder(own: string, to: string): string {
  if (to === 'protocols' && own === 'bindings')
    return 'a binding carries any operation: take what you need from the kernel’s list of protocols'
  if (to === 'protocols' && own === 'kernel') return 'let the protocol pass it in, as createKernel takes its directory'
  return 'pass it in from src/apps, where the parts are put together'
}

/** `./` and `../` stay inside the folder; in protocols, inside the one protocol. */
function insideProblems(path: string, specifier: string): string[] {
  if (!specifier.endsWith('.ts')) return [`${specifier} must end in .ts: Node runs the files as they are`]
  const target = new URL(specifier, `file:///src/${path}`).pathname.slice('/src/'.length)
  const [own, unit] = path.split('/')
  const [to, toUnit] = target.split('/')
  if (to !== own) return [`${specifier} leaves the folder ${own}: write #${target.replace(/^(\.\.\/)+/, '')}`]
  // protocols/index.ts is the list of protocols and the only one who knows them all.
  if (own === 'protocols' && unit !== 'index.ts' && toUnit !== unit)
    return [
      `protocols never import one another (${unit} -> ${toUnit}); join them with a contract in src/contracts, or a port in the kernel`,
    ]
  return []
}

// --- Purity ----------------------------------------------------------------------------------------------------------------

const CLOCK = 'take `now` from the context of decide, or a Clock as a parameter'
const CHANCE = 'take `newId` or `secret` from the context of decide, or an Entropy as a parameter'
const TIMER = 'a wait is a time at which a document is due: declare it with `due` on its kind'
const EFFECT = 'record what shall happen as a fact or a delivery and let a worker do it'
const SETTING = 'take the setting as a parameter; src/apps/server/settings/config.ts reads them'

const bannedNames: Readonly<Record<string, string>> = {
  setTimeout: TIMER,
  setInterval: TIMER,
  setImmediate: TIMER,
  queueMicrotask: TIMER,
  process: SETTING,
  fetch: EFFECT,
  WebSocket: EFFECT,
  crypto: CHANCE,
  performance: CLOCK,
  console: 'throw a Refusal or return what happened; bindings and workers write the log',
  globalThis: 'a pure folder has no surroundings; take what you need as a parameter',
  require: 'write an import',
}
const bannedMembers: readonly (readonly [object: string, member: string, instead: string])[] = [
  ['Date', 'now', CLOCK],
  ['Math', 'random', CHANCE],
  ['AbortSignal', 'timeout', TIMER],
  ['Temporal', 'Now', CLOCK],
]

function impurities({ tokens }: Source): string[] {
  const found: string[] = []
  for (const [i, token] of tokens.entries()) {
    if (token.kind !== 'word') continue
    const texts = tokens.slice(i + 1, i + 3).map(({ text }) => text)
    const say = (what: string, instead: string): number => found.push(`:${token.line}: ${what} in a pure folder; ${instead}`)
    if (tokens[i - 1]?.text === '.') continue
    // A key of that name is no use of the global.
    const instead = Object.hasOwn(bannedNames, token.text) && texts[0] !== ':' ? bannedNames[token.text] : undefined
    if (instead !== undefined) say(token.text, instead)
    const member = bannedMembers.find(([object, name]) => token.text === object && texts[0] === '.' && texts[1] === name)
    if (member) say(`${member[0]}.${member[1]}`, member[2])
    if (token.text === 'Date' && isWithoutArgument(tokens, i)) say('the current date', CLOCK)
  }
  return found
}

/** `new Date()`, `new Date` and `Date()`, but not the type `Date`. */
function isWithoutArgument(tokens: readonly Token[], i: number): boolean {
  const isNew = tokens[i - 1]?.text === 'new'
  if (tokens[i + 1]?.text === '(') return tokens[i + 2]?.text === ')' || !isNew
  return isNew
}

// --- Syntax and size -------------------------------------------------------------------------------------------------------

const UNFINISHED = new RegExp(`\\b(?:${['TO' + 'DO', 'FIX' + 'ME'].join('|')})\\b`)

function syntaxProblems({ tokens, comments }: Source): string[] {
  const found: string[] = []
  for (const { text, line } of comments)
    if (UNFINISHED.test(text)) found.push(`:${line}: finish it, or write it down where work is planned; code carries no notes to self`)
  for (const [i, { kind, text, line }] of tokens.entries()) {
    const [next, after] = [tokens[i + 1], tokens[i + 2]]
    if (kind === 'word' && text === 'enum' && next?.kind === 'word' && after?.text === '{')
      found.push(`:${line}: an enum needs a compiler; write either('a', 'b') for a schema, or a union of words`)
    if (kind === 'word' && text === 'constructor' && next?.text === '(' && hasParameterProperty(tokens, i + 1))
      found.push(`:${line}: a parameter property needs a compiler; declare the field and assign it`)
  }
  return found
}

function hasParameterProperty(tokens: readonly Token[], open: number): boolean {
  const modifiers = new Set(['public', 'private', 'protected', 'readonly', 'override'])
  for (let i = open + 1, depth = 1; i < tokens.length && depth > 0; i++) {
    const { text } = tokens[i]!
    if (depth === 1 && modifiers.has(text) && ['(', ','].includes(tokens[i - 1]!.text) && tokens[i + 1]?.kind === 'word') return true
    if ('([{'.includes(text)) depth++
    else if (')]}'.includes(text)) depth--
  }
  return false
}

function lengthProblems(path: string, text: string): string[] {
  const lines = text.trimEnd().split('\n').length
  const reason = longFiles[path]
  if (lines > LINES_MAX && reason === undefined)
    return [`: ${lines} lines; split it by noun at ${LINES_MAX}, or list it with its reason in test/support/laws/architecture.ts`]
  return lines <= LINES_MAX && reason !== undefined ? [`: ${lines} lines fit again; take it off the list of long files`] : []
}

// --- Folders and lock file -------------------------------------------------------------------------------------------------

const protocolFiles = ['README.md', 'index.ts', 'schema.ts', 'codes.ts', 'examples.ts']

/** `files`: every path under src. `list`: the text of src/protocols/index.ts. */
export function protocolProblems(files: readonly string[], list: string): string[] {
  const names = [...new Set(files.filter((file) => /^protocols\/[^/]+\//.test(file)).map((file) => file.split('/')[1]!))]
  const listed = importsOf(scan(list)).map(({ specifier }) => specifier)
  return names.flatMap((name) => [
    ...protocolFiles
      .filter((file) => !files.includes(`protocols/${name}/${file}`))
      .map((file) => `src/protocols/${name}: ${file} is missing; every protocol has the same files, see CONTRIBUTING.md`),
    ...(listed.includes(`./${name}/index.ts`)
      ? []
      : [`src/protocols/${name} is not in the list of src/protocols/index.ts; nothing would serve it`]),
  ])
}

/** An address in the lock file would tie every install to one registry. */
export const lockProblems = (lock: string): string[] =>
  [...lock.matchAll(/"resolved": *"([^"]*)"/g)].map(
    ([, address]) => `package-lock.json names ${address}; run npm with the .npmrc of this folder`,
  )
