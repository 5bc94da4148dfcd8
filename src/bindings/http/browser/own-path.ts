// A path of this server, out of an address that anybody can write: no sign-in leads to another site.

const NEXT_CHARS_MAX = 500
/** A path of this server, as a browser would read it; any other address becomes the start page. */
export function ownPath(next: string | null): string {
  // A backslash is a slash to browsers, and two slashes are another host.
  if (typeof next !== 'string' || next.length > NEXT_CHARS_MAX || !/^\/(?!\/)[!-~]*$/.test(next) || next.includes('\\')) return '/'
  const url = URL.parse(next, 'http://own.invalid')
  // Dot segments are resolved by now, so the rest can begin with two slashes.
  return url?.origin === 'http://own.invalid' && !url.pathname.startsWith('//') ? `${url.pathname}${url.search}` : '/'
}
