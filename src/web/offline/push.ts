// Pushes as notices of the device. Their content arrives encrypted, and an answer carries the digest of the push.

export type Told = {
  readonly event?: string
  readonly request_id?: string
  readonly title?: string
  readonly link?: string
  readonly path?: string
  readonly actions?: readonly string[]
  readonly digest?: string
}
/** `person`: the recipient of the push. */
export type Pushed = Told & { readonly person?: string; readonly count?: number; readonly items?: readonly Told[] }

type Notice = {
  readonly title: string
  readonly body: string
  readonly path: string
  readonly answer: { readonly request_id: string; readonly digest: string; readonly person: string } | null
}

const pathOf = ({ path, request_id }: Told): string =>
  typeof path === 'string' && /^\/inbox(?:\/\w+)?$/.test(path) ? path : request_id === undefined ? '/inbox' : `/inbox/${request_id}`

const ofAccount: Readonly<Record<string, string>> = {
  passkey_added: 'A passkey was added',
  passkey_removed: 'A passkey was removed',
  passkey_reset: 'Your passkeys are being reset',
}

/** One thing by its title; several by their number. */
export function noticeOf(pushed: Pushed): Notice {
  const items = pushed.items ?? [pushed]
  const [first] = items
  if ((pushed.count ?? items.length) > 1 || first === undefined)
    return {
      title: `${pushed.count ?? items.length} items wait for you`,
      body: items.map(({ title = '' }) => title).join('\n'),
      path: '/inbox',
      answer: null,
    }
  const account = ofAccount[first.event ?? '']
  if (account !== undefined) return { title: 'Your account', body: account, path: '/settings/passkeys', answer: null }
  const { request_id, digest, actions = [] } = first
  const { person } = pushed
  const isAnswerable = request_id !== undefined && digest !== undefined && person !== undefined && actions.includes('approve')
  return {
    title: 'Waits for you',
    body: first.title ?? '',
    path: pathOf(first),
    answer: isAnswerable ? { request_id, digest, person } : null,
  }
}

/** Sends the answer immediately. On any failure the caller opens the page instead, which shows the error. */
export async function sendAnswer(
  { request_id, digest, person }: NonNullable<Notice['answer']>,
  result: 'approved' | 'rejected',
): Promise<boolean> {
  try {
    const answer = await fetch('/v1/execution/request.resolve', {
      method: 'POST',
      credentials: 'same-origin',
      headers: { 'content-type': 'application/json', 'countersign-person': person },
      body: JSON.stringify({ request_id, digest, result }),
    })
    return answer.ok
  } catch {
    return false
  }
}
