// Addresses from cards that the server is allowed to call: public ones, and private ones only if the operator says
// so.
import { BlockList, isIP } from 'node:net'

/** Ranges that IANA reserves for other uses: https://www.iana.org/assignments/iana-ipv4-special-registry */
const reserved4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const
/** Within global unicast (2000::/3): prefixes that embed another address, and documentation. */
const reserved6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const

const inner = new BlockList()
for (const [address, bits] of reserved4) inner.addSubnet(address, bits, 'ipv4')
for (const [address, bits] of reserved6) inner.addSubnet(address, bits, 'ipv6')
/** Everything else of IPv6 is this host, its network, or a way to spell an IPv4 address (::ffff:127.0.0.1, 64:ff9b::7f00:1). */
const global6 = new BlockList()
global6.addSubnet('2000::', 3, 'ipv6')

export function isPublic(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !inner.check(address, 'ipv4')
  return family === 6 && global6.check(address, 'ipv6') && !inner.check(address, 'ipv6')
}
