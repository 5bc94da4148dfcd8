// Help: how commands ask for it, its layout, and the hint that points to it.
import type { Command } from 'commander'
import { distanceOf } from '#kernel/codec/spelling.ts'
import { kebab } from './flags.ts'
import type { Spec } from './command.ts'

/** The heading of the options that every command has. */
export const GLOBAL = 'Global options:'
export const NOUN_USAGE = '<verb> [arguments] [options]'

/** The first page in groups, in this order. */
const groups: Readonly<Record<string, readonly string[]>> = {
  Work: ['task', 'artifact', 'review', 'grant', 'ledger', 'ownership', 'reviewer'],
  Decide: ['inbox', 'request', 'checkpoint', 'filter', 'rule', 'policy', 'group', 'file', 'channel', 'notice'],
  Agents: ['agent', 'ask', 'run', 'capability', 'memo', 'secret', 'mailbox', 'webhook', 'push', 'delivery', 'harness'],
  Gate: ['gate', 'hook', 'acp', 'mcp', 'call', 'tool'],
  Hardware: ['device', 'event'],
  Record: ['audit', 'log', 'receipt', 'witness'],
  People: ['login', 'logout', 'whoami', 'me', 'user', 'project', 'key', 'substitute', 'session', 'passkey', 'subject', 'ticket'],
  Server: ['up', 'apply', 'export-config', 'config', 'doctor', 'admin-key', 'migrate', 'adopt', 'completion'],
}
/** Words that stand between a noun and its verbs. */
export const innerNouns: Readonly<Record<string, string>> = { 'device audit': 'the audit file of a daemon: verify' }
export const firstWords: readonly string[] = Object.values(groups).flat()
export const groupOf = (word: string): string => `${Object.entries(groups).find(([, words]) => words.includes(word))?.[0] ?? 'Others'}:`

export const FIRST_PAGE = `
Examples:
  countersign up                                 start a server here
  countersign login --as user_owner              log in as its owner, on the server's machine
  countersign task create --goal 'Fix the login bug' --criteria 'tests pass'
  countersign inbox                              answer what waits for you, with one key each
  countersign ask approve 'Deploy v2'            ask a person, as an agent, and wait
  countersign task follow <task_id>              watch a task live
  countersign audit verify                       check the record

\`countersign help <noun> <verb>\` tells more. Exit codes: 0 done, 1 refused or not in order, 2 not understood, 3 server not reachable,
4 no valid key; of \`ask\` also 5 rejected or declined, 6 nobody answered in time, 7 withdrawn.
`

/** `assign <task_id> <assignee>`: the required arguments only. */
export function termOf(command: Command): string {
  const usage = command.usage()
  const name = [command.name(), ...command.aliases()].join('|')
  return usage === NOUN_USAGE ? name : `${name} ${usage.replace(/ ?\[options\]$/, '')}`.trimEnd()
}

/** People try `help`, `help task create` and `task help`: all of them show the help. */
export function withHelpAsked(argv: readonly string[], specs: readonly Spec[]): string[] {
  const [first, ...rest] = argv
  if (first === 'help') return [...rest, '--help']
  if (first === 'version' && rest.length === 0) return ['--version']
  const isNoun = specs.some(({ path }) => path.length > 1 && path[0] === first)
  return isNoun && rest.length === 1 && rest[0] === 'help' ? [first!, '--help'] : [...argv]
}

const SAME = 'the arguments are the same'
/** Commands that had another name, each with its name of today and the next step. */
const renamed: Readonly<Record<string, readonly [name: string, hint: string]>> = {
  'agent register': ['agent publish', SAME],
  'checkpoint answer': [
    'inbox',
    'run `countersign inbox` at a terminal; scripts use `countersign inbox answer` or `countersign checkpoint resolve`',
  ],
  'callback list': ['channel list', SAME],
  'callback register': ['channel add', SAME],
  'callback remove': ['channel remove', SAME],
  'callback rotate': ['channel rotate', SAME],
  'inbox ack': ['mailbox ack', SAME],
  'inbox extend': ['mailbox extend', SAME],
  'inbox release': ['mailbox release', SAME],
  'inbox take': ['mailbox take', SAME],
}

/** A verb that its noun does not have; null: noun and verb are known. */
export function unknownVerb(argv: readonly string[], specs: readonly Spec[]): { message: string; hint: string } | null {
  const [noun, verb] = argv
  if (noun === undefined || verb === undefined || noun.startsWith('-') || verb.startsWith('-')) return null
  const now = renamed[`${noun} ${verb}`]
  if (now !== undefined) return { message: `\`${noun} ${verb}\` is now \`countersign ${now[0]}\``, hint: now[1] }
  const nounSpec = specs.find(({ path }) => path.length === 1 && path[0] === noun)
  const verbs = specs.filter(({ path }) => path.length > 1 && path[0] === noun)
  const isKnown = verbs.some(({ path }) => path[1] === verb) || (verb === 'show' && verbs.some(({ path }) => path[1] === 'get'))
  if (verbs.length === 0 || isKnown || (nounSpec?.positionals.length ?? 0) > 0) return null
  const names = [...verbs.filter(({ hidden }) => !hidden).map(({ path }) => path[1]!), ...(isOf(verbs, 'get') ? ['show'] : [])]
  const [meant] = names
    .map((name) => ({ name, distance: distanceOf(verb, name) }))
    .filter(({ name, distance }) => distance <= Math.max(1, Math.floor(name.length / 3)) + 1)
    .toSorted((a, b) => a.distance - b.distance)
  const hint = meant ? `did you mean \`countersign ${noun} ${meant.name}\`?` : `see \`countersign ${noun} --help\``
  return { message: `${noun} has no command ${JSON.stringify(verb)}`, hint }
}
const isOf = (verbs: readonly Spec[], verb: string): boolean => verbs.some(({ path }) => path[1] === verb)

const SHOWN_MAX = 3

/** Points to more help, or suggests the command that was probably meant. */
export function hintFor(argv: readonly string[], specs: readonly Spec[]): string {
  const positionals = argv.filter((word) => !word.startsWith('-'))
  const operation = positionals[0]?.replace(/^\w+\//, '').split('.')
  const meant = operation && operation.length > 1 ? specs.find((spec) => spec.path.join(' ') === operation.map(kebab).join(' ')) : undefined
  if (meant) return `did you mean \`countersign ${meant.path.join(' ')}\`?`
  const known = specs
    .filter((spec) => spec.path.every((word, i) => positionals[i] === word))
    .toSorted((a, b) => b.path.length - a.path.length)[0]
  const noun = specs.some((spec) => spec.path.length > 1 && spec.path[0] === positionals[0]) ? positionals[0] : undefined
  const asVerb =
    known || noun !== undefined ? [] : specs.filter((spec) => !spec.hidden && spec.path.length > 1 && spec.path[1] === positionals[0])
  if (asVerb.length > 0) {
    const shown = asVerb.slice(0, SHOWN_MAX).map((spec) => `\`countersign ${spec.path.join(' ')}\``)
    return `a noun comes first: ${shown.join(', ')}${asVerb.length > SHOWN_MAX ? ', ...' : ''}`
  }
  return `see \`countersign ${known ? `${known.path.join(' ')} ` : noun === undefined ? '' : `${noun} `}--help\``
}
