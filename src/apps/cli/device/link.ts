// `device link`: the device is registered at a server with the key of an agent, and the daemon finds both in its data folder.
import { join } from 'node:path'
import { LINK_FILE } from '../../device/link.ts'
import { identityIn, openDeviceFolder, writePrivately } from '../../device/folder.ts'
import { usage } from '../exit-codes.ts'
import type { Context } from '../derive/command.ts'
import { openHttpRemote } from '../remote/http.ts'

const KEY_CHARS_MAX = 1_000

async function keyOn(input: NodeJS.ReadStream): Promise<string> {
  let text = ''
  for await (const part of input) {
    text += String(part)
    if (text.length > KEY_CHARS_MAX) throw usage('the key on stdin is too long')
  }
  const key = text.trim()
  if (key === '') throw usage("the agent's key must come on stdin", 'countersign device link --url URL < agent.key')
  return key
}

/** The identity of a running daemon, or of a daemon that was never started. */
function identityOf(data: string): NonNullable<ReturnType<typeof identityIn>> {
  const there = identityIn(data)
  if (there) return there
  const folder = openDeviceFolder(data)
  folder.lock.release()
  return folder
}

export async function linkDevice(context: Context, data: string, name: string | null): Promise<void> {
  const { globals, io } = context
  if (globals.url === undefined) throw usage('--url is missing: it names the server')
  const key = globals.apiKey ?? (await keyOn(io.input))
  const { device_id, key: deviceKey } = identityOf(data)
  const url = globals.url.replace(/\/+$/, '')
  const input = { device_id, name: name ?? device_id, jwk: deviceKey.jwk }
  const server = openHttpRemote(url, key)
  try {
    await server.call('hardware/device.register', input)
  } finally {
    await server.close()
  }
  writePrivately(join(data, LINK_FILE), `${JSON.stringify({ url, key })}\n`)
  io.out.write(`${device_id} is linked to ${url}; a running daemon takes it up within a second\n`)
}
