// The installer of the service worker, in a separate document: registering takes an address as a string, which the policy of the page forbids
// to all other code.
import '../style/index.css'

const status = document.querySelector('#status')!
const next = new URLSearchParams(location.search).get('next') ?? '/settings/profile'
const back = /^\/(?![/\\])[\x21-\x7e]*$/.test(next) ? next : '/settings/profile'

try {
  await navigator.serviceWorker.register('/worker.js', { scope: '/' })
  await navigator.serviceWorker.ready
  location.replace(back)
} catch (error) {
  status.textContent = `This browser does not allow it here: ${(error as Error).message}. The page works as before.`
}
