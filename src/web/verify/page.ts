// The page that verifies bundles: two files in, a verdict out, in the browser of the reader and without any network.
import { verifyBundle, type BundleVerdict } from '#sdk/index.ts'

const byId = (id: string): HTMLElement => document.getElementById(id)!
const [bundle, policy] = [byId('bundle') as HTMLInputElement, byId('policy') as HTMLInputElement]
const verdict = byId('verdict')

/** The verdict as lines: text nodes alone, because a bundle is written by others. */
function show(state: 'genuine' | 'refused' | 'unusable' | 'working', lines: readonly string[]): void {
  verdict.className = state
  verdict.replaceChildren(
    ...lines.map((line) => {
      const paragraph = document.createElement('p')
      paragraph.textContent = line
      return paragraph
    }),
  )
}

function linesOf(found: BundleVerdict): readonly string[] {
  if (!found.genuine) return ['Not genuine', `${found.line === null ? '' : `line ${found.line}: `}${found.what}`]
  const { about, complete, facts, receipts, erased, origin, size, witnesses } = found
  return [
    'Genuine',
    `About ${about.kind} ${about.id}: ${complete === null ? `a selection of ${facts} facts` : `complete, numbers ${complete.from} to ${complete.to}`}`,
    ...(receipts > 0 ? [`${receipts} receipts`] : []),
    ...(erased > 0 ? [`${erased} texts erased`] : []),
    `Log ${origin}, with ${size} facts`,
    ...(witnesses.length === 0 ? ['No witnesses: the log alone vouches'] : witnesses.map(({ name, at }) => `Witness ${name}, at ${at}`)),
  ]
}

let round = 0
async function verify(): Promise<void> {
  const [file, trusted] = [bundle.files?.[0], policy.files?.[0]]
  if (file === undefined || trusted === undefined) return
  const mine = ++round
  show('working', ['Verifying...'])
  try {
    const found = await verifyBundle(file, await trusted.text())
    if (mine === round) show(found.genuine ? 'genuine' : 'refused', linesOf(found))
  } catch (error) {
    if (mine === round) show('unusable', ['It could not be tried', (error as Error).message])
  }
}

for (const input of [bundle, policy]) input.addEventListener('change', () => void verify())
