// The curve of Web Push (P-256, RFC 8291): whether a browser's key is a point on it. Nothing can be encrypted to any other key.
const P = 0xffffffff00000001000000000000000000000000ffffffffffffffffffffffffn
const B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn
const UNCOMPRESSED = 4

export function isOnCurve(p256dh: string): boolean {
  const bytes = Buffer.from(p256dh, 'base64url')
  if (bytes.length !== 65 || bytes[0] !== UNCOMPRESSED) return false
  const [x, y] = [1, 33].map((from) => BigInt(`0x${bytes.toString('hex', from, from + 32)}`)) as [bigint, bigint]
  return x < P && y < P && (y * y - (x * x * x - 3n * x + B)) % P === 0n
}
