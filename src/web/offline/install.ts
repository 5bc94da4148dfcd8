// Puts the service worker onto this device. It is a document of its own: registering takes an address as a string, which the policy of the page forbids
// to everything else.
import '../style/index.css'

const said = document.querySelector('#said')!
const next = new URLSearchParams(location.search).get('next') ?? '/settings/profile'
const back = /^\/(?![/\\])[\x21-\x7e]*$/.test(next) ? next : '/settings/profile'

try {
  await navigator.serviceWorker.register('/worker.js', { scope: '/' })
  await navigator.serviceWorker.ready
  location.replace(back)
} catch (error) {
  said.textContent = `This browser does not allow it here: ${(error as Error).message}. The page works as before.`
}
