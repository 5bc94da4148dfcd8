// The C library: the one file that calls it, for the ioctls of GPIO, I2C and serial ports, which Node does not offer.
import koffi from 'koffi'

const lib = koffi.load('libc.so.6')
const call = lib.func('int ioctl(int fd, unsigned long request, ...)') as (
  fd: number,
  request: number,
  type: string,
  value: unknown,
) => number

/** A call that failed, with the name of its errno. */
export class ErrnoError extends Error {
  override name = 'ErrnoError'
  readonly code: string
  constructor(what: string, errno: number) {
    const code = Object.entries(koffi.os.errno).find(([, number]) => number === errno)?.[0] ?? `E${errno}`
    super(`${what}: ${code}`)
    this.code = code
  }
}

export function ioctl(what: string, fd: number, request: number, argument: Buffer | number): number {
  for (;;) {
    const answer = typeof argument === 'number' ? call(fd, request, 'unsigned long', argument) : call(fd, request, 'void *', argument)
    if (answer >= 0) return answer
    const errno = koffi.errno()
    if (errno !== koffi.os.errno['EINTR']) throw new ErrnoError(what, errno)
  }
}

/** Calls back whenever there is something to read. */
export const watchReadable = (fd: number, onReadable: () => void): { close(): void } =>
  koffi.node.poll(fd, { readable: true }, () => onReadable())

export const addressOf = (bytes: Buffer): bigint => koffi.address(bytes)
