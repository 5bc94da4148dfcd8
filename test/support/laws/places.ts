// Places that a protocol, a store, a binding, a bridge and a worker need in addition to their own files. CONTRIBUTING.md describes them;
// `npm run check` names each missing one.

export type Tree = {
  /** Every file of src, test and docs. */
  readonly files: readonly string[]
  textOf(path: string): string
}

/** Folders of `bindings` that all bindings share. */
const SHARED = ['shared', 'live']

export function missingPlaces(tree: Tree): string[] {
  const { files, textOf } = tree
  const below = (folder: string): string[] => files.filter((path) => path.startsWith(`${folder}/`))
  const foldersOf = (folder: string): string[] => [
    ...new Set(below(folder).flatMap((path) => /^([\w-]+)\//.exec(path.slice(folder.length + 1))?.[1] ?? [])),
  ]
  const texts = (folder: string): string =>
    below(folder)
      .filter((path) => path.endsWith('.ts'))
      .map(textOf)
      .join('\n')
  const [apps, tests] = [texts('src/apps'), texts('test')]
  const plain = (text: string): string => text.toLowerCase().replaceAll(/[^a-z]/g, '')

  const ofProtocol = (name: string): Row[] => [
    [files.includes(`docs/protocols/${name}.md`), `its page docs/protocols/${name}.md`],
    [textOf('src/protocols/index.ts').includes(`'./${name}/index.ts'`), 'its line in src/protocols/index.ts'],
  ]
  const ofStore = (name: string): Row[] => [
    [
      textOf('src/apps/server/storage.ts').includes(name) || apps.includes(`${name}(`) || name === 'memoryStore',
      'its use in src/apps/server',
    ],
    [
      new RegExp(`\\b${name}\\(`).test(texts('test/support')) || new RegExp(`\\b${name}\\(`).test(texts('test/stores')),
      'its tests: storeMakers in test/support/in-process/world.ts, or a file in test/stores',
    ],
  ]
  /** A binding may carry another one, as that of HTTP carries sockets. */
  const isMounted = (name: string): boolean =>
    below('src/bindings').some((path) => !path.startsWith(`src/bindings/${name}/`) && textOf(path).includes(`/${name}/index.ts'`))
  const ofBinding = (name: string): Row[] => [
    [apps.includes(`#bindings/${name}/`) || isMounted(name), 'its line in src/apps/server/server.ts'],
    [plain(textOf('docs/bindings.md')).includes(name), 'its section in docs/bindings.md'],
    [tests.includes(`#bindings/${name}/`) || files.includes(`test/bindings/${name}.test.ts`), 'its row in test/laws/bindings.test.ts'],
  ]
  const ofBridge = (name: string): Row[] => [[apps.includes(`#bridges/${name}/`), 'its line in src/apps']]
  const ofWorker = (name: string): Row[] => [[new RegExp(`\\b${name}\\(`).test(apps + texts('src/bridges')), 'its start in src/apps']]

  const things: readonly (readonly [kind: string, names: readonly string[], places: (name: string) => Row[]])[] = [
    ['protocol', foldersOf('src/protocols'), ofProtocol],
    ['store', namesIn(texts('src/stores'), /^export (?:async )?function (\w+Store)\(/gm), ofStore],
    ['binding', foldersOf('src/bindings').filter((name) => !SHARED.includes(name)), ofBinding],
    ['bridge', foldersOf('src/bridges'), ofBridge],
    ['worker', workersIn(below('src/workers').map(textOf)), ofWorker],
  ]
  return things.flatMap(([kind, names, places]) =>
    names.flatMap((name) =>
      places(name).flatMap(([isThere, place]) => (isThere ? [] : [`the ${kind} ${name} has no place yet: ${place}`])),
    ),
  )
}

type Row = readonly [isThere: boolean, place: string]

const namesIn = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, name]) => name!)

/** Functions that return a worker and that no other worker starts. */
function workersIn(texts: readonly string[]): string[] {
  const made = texts.flatMap((text) =>
    namesIn(text, /^export (?:async )?(?:function|const) ((?:run|watch)[A-Z]\w*)\b[^{]*?\): (?:Promise<)?Worker\b/gms),
  )
  const all = texts.join('\n')
  return made.filter((name) => [...all.matchAll(new RegExp(`(?<!function )\\b${name}\\(`, 'g'))].length === 0)
}
