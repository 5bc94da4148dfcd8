// Pushes to this browser: asked for only on a click. The device must be set up first, as only its service worker can receive them.
import { useMutation, useQuery } from '@tanstack/react-query'
import { Refused } from '../parts/states.tsx'
import { call, queries } from '../server/client.ts'

const bytesIn = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (letter) => letter.charCodeAt(0))

async function subscribe(key: string): Promise<void> {
  const registration = await navigator.serviceWorker.getRegistration('/')
  if (!registration) return location.assign('/install?next=/settings/notifications')
  const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytesIn(key) })
  const { p256dh, auth } = subscription.toJSON().keys as { readonly p256dh: string; readonly auth: string }
  await call('execution/channel.add', { kind: 'push', endpoint: subscription.endpoint, keys: { p256dh, auth }, label: 'This browser' })
}

export function PushHere() {
  const key =
    useQuery({
      queryKey: ['push-key'],
      queryFn: () => call('execution/channel.push_key', {}),
      retry: false,
    }).data?.key ?? null
  const add = useMutation({
    mutationFn: () => subscribe(key!),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['channels'] }),
  })
  const isAble = 'serviceWorker' in navigator && 'PushManager' in window
  if (key === null || !isAble) return null
  return (
    <section className="card form">
      <h3 className="h">This browser</h3>
      <p className="note">Get a push when something needs you. You can approve simple low-risk items right from it.</p>
      <Refused
        error={
          add.error instanceof DOMException ? 'The browser does not allow pushes from this page. Its settings can change that.' : add.error
        }
      />
      <button type="button" className="btn sm" aria-disabled={add.isPending || undefined} onClick={() => !add.isPending && add.mutate()}>
        Push to this browser
      </button>
    </section>
  )
}
