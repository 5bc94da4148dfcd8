// A connection to the daemon of this machine, and the search for its socket.
import { connect, type Socket } from 'node:net'
import { join, resolve } from 'node:path'
import { createHacpClient, HacpError, type HacpClient } from '#protocols/hardware/client.ts'
import { version } from '../../version.ts'
import { CliError, exits } from '../exit-codes.ts'
import type { Context } from '../derive/command.ts'
import type { FlagValues } from '../derive/flags.ts'

export const dataOf = ({ globals, io }: Context): string => resolve(io.cwd, globals.data ?? io.env['COUNTERSIGN_DEVICE_DATA'] ?? 'device')

export function socketOf(context: Context, given: FlagValues): string {
  const named = (given.get('socket') as string | undefined) ?? context.io.env['COUNTERSIGN_DEVICE_SOCKET']
  return named === undefined ? join(dataOf(context), 'device.sock') : resolve(context.io.cwd, named)
}

export function reach(path: string): Promise<Socket> {
  return new Promise((done, failed) => {
    const socket = connect(path)
    socket.once('connect', () => done(socket))
    socket.once('error', (error: NodeJS.ErrnoException) =>
      failed(
        new CliError(
          exits.unreachable,
          'UNREACHABLE',
          `no daemon answers on ${path} (${error.code})`,
          'start one with `countersign device up`, or name its socket with --socket',
        ),
      ),
    )
  })
}

export type Line = { readonly client: HacpClient; readonly session_id: string; close(): Promise<void> }

/** A session of the command line; the daemon's refusals become exit codes. */
export async function withSession<T>(context: Context, given: FlagValues, act: (line: Line) => Promise<T>): Promise<T> {
  const socket = await reach(socketOf(context, given))
  const client = createHacpClient('countersign', version, (line) => void socket.write(line))
  socket.on('data', (bytes: Uint8Array) => client.receive(bytes))
  socket.on('error', () => client.ended('the connection to the daemon broke'))
  socket.on('close', () => client.ended('the daemon has closed the connection'))
  try {
    const { session_id } = await client.open()
    const close = async (): Promise<void> => void (await client.call('session.close', { session_id }))
    const result = await act({ client, session_id, close })
    await close()
    return result
  } catch (error) {
    throw error instanceof HacpError ? refusedByDaemon(error) : error
  } finally {
    socket.destroy()
  }
}

function refusedByDaemon({ code, data, message }: HacpError): CliError {
  const word = typeof data['code'] === 'string' ? data['code'] : String(code)
  const hint = word === 'approval_required' ? 'a person must approve it: ask with the body in --json, then submit with the receipt' : null
  return new CliError(exits.refused, word.toUpperCase(), message, hint, { number: code, ...data })
}
