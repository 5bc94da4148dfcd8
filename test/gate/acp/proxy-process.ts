// `countersign acp` as a process: the login behind it, and an editor at its streams.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { inProcess } from '../../support/as-processes/cli.ts'
import { AGENT, openEditor } from './acp-world.ts'

export const BIN = join(import.meta.dirname, '../../../bin/countersign.js')
type At = { readonly data: string; readonly url: string; readonly keys: { readonly alice: string }; readonly effectsFile: string }

export async function login(world: At): Promise<string> {
  const home = join(world.data, '..')
  const { code, err } = await inProcess({ home }).run(['login', '--url', world.url], world.keys.alice)
  assert.equal(code, 0, err)
  return home
}

export async function startProxy(
  t: Pick<TestContext, 'after'>,
  world: At,
  home: string,
  words: string[],
  env: Record<string, string> = {},
) {
  const child = spawn(process.execPath, [BIN, 'acp', ...words, '--', process.execPath, AGENT], {
    cwd: home,
    env: { PATH: process.env['PATH'], HOME: home, EFFECTS: world.effectsFile, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let err = ''
  child.stderr.setEncoding('utf8').on('data', (part: string) => (err += part))
  child.stdin.on('error', () => undefined)
  const ended = once(child, 'close')
  t.after(async () => {
    child.kill('SIGTERM')
    await ended
  })
  const editor = openEditor(child.stdin, child.stdout)
  const begin = async (): Promise<void> => {
    await editor.call('initialize', { protocolVersion: 1, clientCapabilities: {} })
    await editor.call('session/new', { cwd: home, mcpServers: [] })
  }
  return { child, editor, begin, ended, err: () => err }
}
