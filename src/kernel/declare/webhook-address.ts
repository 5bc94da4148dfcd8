// Webhook addresses that users register for this server to post to, and the secrets that sign those posts.

/**
 * An http or https address without a user name, a password or a fragment. `isPublicOnly`: the operator allows only public addresses over
 * https, so an address that is visibly something else could never be called. The IP address behind a host name is checked at the time of
 * the call.
 */
export function isHookAddress(endpoint: string, isPublicOnly = false): boolean {
  const url = URL.parse(endpoint)
  if (url === null || !['https:', 'http:'].includes(url.protocol) || url.username !== '' || url.password !== '' || url.hash !== '')
    return false
  return url.port !== '0' && (!isPublicOnly || (url.protocol === 'https:' && isPublicHost(url.hostname)))
}

/** Expects a host as the URL parser normalizes it. */
function isPublicHost(host: string): boolean {
  if (host.startsWith('[')) return isPublic6(host.slice(1, -1))
  const name = host.endsWith('.') ? host.slice(0, -1) : host
  if (/^\d+\.\d+\.\d+\.\d+$/.test(name)) return isPublic4(name.split('.').map(Number))
  return name !== 'localhost' && !/\.(?:localhost|local|internal|invalid|test)$/.test(name) && name.includes('.')
}

function isPublic4([a = 0, b = 0, c = 0]: readonly number[]): boolean {
  if (a === 0 || a === 10 || a === 127 || a >= 224) return false
  if (a === 100) return b < 64 || b > 127
  if (a === 172) return b < 16 || b > 31
  if (a === 192) return b !== 168 && !(b === 0 && (c === 0 || c === 2)) && !(b === 88 && c === 99)
  if (a === 198) return b !== 18 && b !== 19 && !(b === 51 && c === 100)
  return !(a === 169 && b === 254) && !(a === 203 && b === 0 && c === 113)
}

/** Global unicast, except ranges that embed another address and documentation ranges. */
function isPublic6(address: string): boolean {
  const [first = '', second = ''] = address.split(':')
  const [head, next] = [Number.parseInt(first || '0', 16), Number.parseInt(second || '0', 16)]
  if (head < 0x2000 || head > 0x3fff || head === 0x2002) return false
  return !(head === 0x2001 && (next < 0x200 || next === 0xdb8)) && !(head === 0x3fff && next < 0x1000)
}

/** A secret in the format of Standard Webhooks: the prefix, and the bytes in base64. */
export const hookSecretOf = (random: string): string => `whsec_${Buffer.from(random, 'base64url').toString('base64')}`
