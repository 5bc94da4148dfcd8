// Laws of names and rooms: first sentences, sizes of folders, and exports that mean one thing.

/** Words that announce a description instead of naming the thing. */
const RIDDLES = /^(What|Who|Whoever|How|Where|Whether|That|Which|Why)\b/

/** `text`: a source file, which begins with a comment that says what the thing is. */
export function firstSentenceProblems(path: string, text: string): string[] {
  const first = /^(?:#!.*\n)?\/\/ (.*)/.exec(text)?.[1]
  if (first === undefined) return [`${path}: begin the file with a comment whose first sentence says what the thing is`]
  const word = RIDDLES.exec(first)?.[0]
  return word === undefined ? [] : [`${path}: the first sentence begins with "${word}"; begin with the name of the thing`]
}

const FILES_MAX = 14

/** `paths`: every file. The folder `operations` of a protocol has one file for each noun, however many there are. */
export function folderProblems(paths: readonly string[]): string[] {
  const folderOf = (path: string): string => path.slice(0, path.lastIndexOf('/'))
  const folders = Map.groupBy(paths, folderOf)
  return [...folders]
    .filter(([folder, files]) => files.length > FILES_MAX && !folder.endsWith('/operations'))
    .map(([folder, files]) => `${folder}: ${files.length} files; split the folder by subject at ${FILES_MAX}`)
}

/** `files`: the sources of one protocol. A name that two files export would have two meanings. */
export function doubleExports(files: readonly (readonly [path: string, text: string])[]): string[] {
  const homes = new Map<string, Set<string>>()
  for (const [path, text] of files)
    for (const [, name] of text.matchAll(/^export (?:async )?(?:const|function|type|class) (\w+)/gm))
      homes.set(name!, (homes.get(name!) ?? new Set()).add(path))
  return [...homes]
    .filter(([, paths]) => paths.size > 1)
    .map(([name, paths]) => `${name} is exported by ${[...paths].toSorted().join(' and ')}; give one of them another name`)
}

/** Participles say neither what is done nor to what; `test/laws/names.test.ts` holds every function of the sources against them. */
const PARTICIPLE =
  /^(?:[a-z]+(?:ed|ing)|begun|bound|broken|built|chosen|done|drawn|found|given|gone|heard|held|kept|known|left|lost|made|meant|met|paid|said|seen|sent|shown|spoken|spent|taken|told|thrown|understood|woken|written)$/
const VERBS = new Set(['bring', 'embed', 'exceed', 'feed', 'ping', 'proceed', 'ring', 'seed', 'succeed'])
const FUNCTION = /\bfunction\*?\s+(\w+)|\b(?:const|let)\s+(\w+)(?:: (?:[^=\n]|=>)+?)?\s*=\s*(?:async\s+)?(\(|<|\w+\s*=>)/g

/** `text` from the opening parenthesis of a value on: whether it begins a list of parameters. */
function isArrow(text: string): boolean {
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    if ('([{'.includes(text[i]!)) depth++
    else if (')]}'.includes(text[i]!) && --depth === 0) return /^\s*(?::[^;]{0,300}?)?=>/.test(text.slice(i + 1))
  }
  return false
}

/** A function is called a verb with its object, or `<noun>Of`. Local functions count as well. */
export function participleProblems(path: string, text: string): string[] {
  return [...text.matchAll(FUNCTION)]
    .filter(({ 3: begin, 0: match, index }) => begin !== '(' || isArrow(text.slice(index + match.length - 1)))
    .map(([, declared, assigned]) => declared ?? assigned!)
    .filter((name) => PARTICIPLE.test(name) && !VERBS.has(name))
    .map((name) => `${path}: ${name} is a participle; call the function a verb with its object, or <noun>Of`)
}

const TITLE = /^\s*(?:test|it|describe)\(\s*(['`])((?:\\.|(?!\1)[^\\])*)\1/gm
const CLAUSE = /^(?:what|who|whoever|whatever|nobody|somebody|everybody|whether|however)\b/i

/** The title of a test begins with its subject, a component or a document. */
export function titleProblems(path: string, text: string): string[] {
  return [...text.matchAll(TITLE)]
    .filter(({ 2: title }) => CLAUSE.test(title!))
    .map(({ 2: title }) => `${path}: "${title}" begins with a clause; begin with the component that is tested`)
}

/** Files whose main export is not their only factory. The list may only shrink. */
const OTHER_FACTORIES = new Set([
  'src/bindings/http/bytes/shared.ts',
  'src/kernel/log/seals/seals.ts',
  'src/sdk/await-answer.ts',
  'src/stores/blobs/writing.ts',
  'src/workers/upkeep/metric-lines.ts',
])
const FACTORY = /^export (?:async )?(?:function|const) ((?:create|open)([A-Z]\w*))/gm
const WORKER = /^export (?:async )?(?:function|const) ((?:create|open|run)([A-Z]\w*))/gm
const plain = (name: string): string => name.replaceAll('-', '').toLowerCase()

/** `text`: a source file. The name of its only factory contains the name of the file, or of the folder of an `index.ts`. */
export function factoryProblems(path: string, text: string): string[] {
  const factories = [...text.matchAll(path.startsWith('src/workers/') ? WORKER : FACTORY)]
  if (factories.length !== 1 || OTHER_FACTORIES.has(path)) return []
  const [folder, file] = path.split('/').slice(-2) as [string, string]
  const name = file.replace(/\.tsx?$/, '')
  const [, factory, product] = factories[0]!
  return plain(product!).includes(plain(name === 'index' ? folder : name)) ? [] : [`${path}: call ${factory} after its file`]
}
