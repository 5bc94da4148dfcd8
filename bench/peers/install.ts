// Installs a peer into a folder of the user's cache when a benchmark asks for it. Nothing of a peer is part of this project but its driver.
import { execFile } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const INSTALL_MS_MAX = 300_000
const home = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'countersign', 'peers')

/** Versions that were tried together. */
export const packages = {
  restate: ['@restatedev/restate-server@1.7.12', '@restatedev/restate-sdk@1.17.2'],
  dbos: ['@dbos-inc/dbos-sdk@5.3.0'],
  langgraph: [
    '@langchain/langgraph@1.4.0',
    '@langchain/core@1.2.13',
    '@langchain/langgraph-checkpoint@1.1.5',
    '@langchain/langgraph-checkpoint-postgres@1.0.5',
  ],
  mastra: ['@mastra/core@1.71.0', '@mastra/libsql@1.23.1', 'zod@4.6.7'],
  openai: ['@openai/agents@0.20.0', 'zod@4.6.7'],
} as const
export type PeerName = keyof typeof packages

/** The folder with the peer and its driver; throws with npm's own message if it cannot be installed. */
export async function installedPeer(name: PeerName): Promise<string> {
  const folder = await installedPackages(name, packages[name])
  for (const file of ['driver.mjs', `${name}.mjs`]) copyFileSync(join(import.meta.dirname, file), join(folder, file))
  return folder
}

/** A folder with these packages, named after the version of the first. */
export async function installedPackages(name: string, names: readonly [string, ...string[]]): Promise<string> {
  const folder = join(home, `${name}-${names[0].split('@').at(-1)}`)
  if (existsSync(folder)) return folder
  mkdirSync(dirname(folder), { recursive: true })
  const staging = mkdtempSync(`${folder}-`)
  try {
    writeFileSync(join(staging, 'package.json'), '{"private":true,"type":"module"}')
    const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--legacy-peer-deps', '--loglevel=error']
    await run('npm', ['install', ...flags, ...names], { cwd: staging, timeout: INSTALL_MS_MAX })
    renameSync(staging, folder)
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
  return folder
}
