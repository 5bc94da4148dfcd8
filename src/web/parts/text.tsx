// Text from other users, shown as data: an isolated text node, wrapped if long, never markup or a link.
export function Said({ children, mono = false }: { readonly children: string; readonly mono?: boolean }) {
  return <bdi className={mono ? 'said mono' : 'said'}>{children}</bdi>
}
/** The beginning and the end of an id; the title has the full id. */
export function ShortId({ id }: { readonly id: string }) {
  const cut = id.length > 18 ? `${id.slice(0, id.indexOf('_') + 1)}…${id.slice(-4)}` : id
  return (
    <span className="mono" title={id}>
      {cut}
    </span>
  )
}
export const shortDigest = (digest: string): string => (digest.length > 12 ? `${digest.slice(0, 4)}…${digest.slice(-3)}` : digest)
/** In steps of a thousand, as people and disks count them. */
export const bytesOf = (count: number): string => {
  const inUnit = (of: number): string => (count / of).toFixed(1).replace('.0', '')
  if (count < 1_024) return `${count} B`
  return count < 1_000_000 ? `${inUnit(1_000)} kB` : `${inUnit(1_000_000)} MB`
}
export const plural = (count: number, one: string, many = `${one}s`): string => `${count.toLocaleString('en')} ${count === 1 ? one : many}`
