// Addresses that somebody names so that this server posts to them, and the secrets that such posts are signed with.

/** An http or https address without a name, a password or a fragment. Which hosts may be called is decided when one is. */
export function isHookAddress(endpoint: string): boolean {
  const url = URL.parse(endpoint)
  return (url?.protocol === 'https:' || url?.protocol === 'http:') && url.username === '' && url.password === '' && url.hash === ''
}

/** As Standard Webhooks write one: the prefix, and the bytes in base64. */
export const hookSecretOf = (random: string): string => `whsec_${Buffer.from(random, 'base64url').toString('base64')}`
