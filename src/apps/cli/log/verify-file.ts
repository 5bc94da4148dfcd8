// A bundle, verified without a server: the file, and a policy that says whom to trust.
import { openAsBlob } from 'node:fs'
import { resolve } from 'node:path'
import { Unreadable } from '#kernel/log/tree/note.ts'
import { limits } from '#kernel/limits.ts'
import type { Bytes } from '#sdk/bundle/read-lines.ts'
import { verifyBundle, type BundleVerdict } from '#sdk/bundle/verify.ts'
import { exits, usage, type Exit } from '../exit-codes.ts'
import { readInput } from '../input/read-input.ts'
import { writeJson } from '../output/render.ts'
import { escapeControl } from '../output/safe-text.ts'
import type { Context } from '../derive/command.ts'

/** From standard input all of it is in memory; a file is read in parts. */
const INPUT_BYTES_MAX = 512 * 1024 * 1024

/** Exit 0: genuine, 1: not genuine, 2: it could not be tried. */
export async function verifyFile(context: Context, file: string, policyFile: string | undefined): Promise<Exit> {
  if (policyFile === undefined)
    throw usage('a bundle is verified with a policy: --policy <file>', 'save one from the operator, or with `curl <server>/log/policy`')
  if (file === '-' && policyFile === '-') throw usage('only one of the files can be -')
  const policy = (await readInput(context.io, policyFile, limits.logPolicyCharsMax)).toString('utf8')
  const verdict = await verdictOf(await bytesOf(context, file), policy, file)
  if (context.json) writeJson(context, verdict)
  else context.io.out.write(sentences(verdict, context))
  return verdict.genuine ? exits.ok : exits.refused
}

async function verdictOf(bundle: Bytes, policy: string, file: string): Promise<BundleVerdict> {
  try {
    return await verifyBundle(bundle, policy)
  } catch (error) {
    if (error instanceof Unreadable) throw usage(error.message)
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined && (error as Error).name !== 'NotReadableError') throw error
    throw usage(`${file} cannot be read: ${(error as Error).message}`)
  }
}

async function bytesOf({ io }: Context, file: string): Promise<Bytes> {
  if (file === '-') return new Blob([Uint8Array.from(await readInput(io, '-', INPUT_BYTES_MAX))])
  try {
    return await openAsBlob(resolve(io.cwd, file))
  } catch (error) {
    throw usage(`${file} cannot be read: ${(error as Error).message}`)
  }
}

function sentences(verdict: BundleVerdict, { paint }: Context): string {
  if (!verdict.genuine) {
    const where = verdict.line === null ? '' : `line ${verdict.line}: `
    return `${paint('red', '✖')} not genuine: ${where}${escapeControl(verdict.what)}\n`
  }
  const { about, complete, facts, receipts, erased, origin, size, witnesses } = verdict
  const extent = complete === null ? `a selection of ${facts} facts` : `complete, numbers ${complete.from} to ${complete.to}`
  const more = [receipts > 0 ? `${receipts} receipts` : '', erased > 0 ? `${erased} texts erased` : ''].filter((part) => part !== '')
  const rows = [
    ['about', `${about.kind} ${about.id}: ${[extent, ...more].join(', ')}`],
    ['log', `${origin}, with ${size} facts`],
    ...(witnesses.length === 0
      ? [['witnesses', 'none: the log alone vouches']]
      : witnesses.map(({ name, at }) => ['witness', `${name}, at ${at}`])),
  ] as const
  const lines = rows.map(([name, value]) => `  ${paint('dim', name.padEnd(10))} ${escapeControl(value)}\n`)
  return `${paint('green', '✔')} genuine\n${lines.join('')}`
}
