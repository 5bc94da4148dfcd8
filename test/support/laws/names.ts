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

/** Participles say neither what is done nor to what; `test/laws/names.test.ts` holds every exported function against them. */
const PARTICIPLE = /^(?:[a-z]+(?:ed|ing)|made|taken|kept|left|held|told|said|given|shown|seen|found|sent|gone|done)$/
const EXPORTED_FUNCTION = /^export (?:async )?(?:function\*? (\w+)|const (\w+)(?:: [^=\n]+)? =\s*(?:async )?[(<])/gm

/** An exported function is called a verb with its object, or `<noun>Of`. */
export function participleProblems(path: string, text: string): string[] {
  return [...text.matchAll(EXPORTED_FUNCTION)]
    .map(([, declared, assigned]) => declared ?? assigned!)
    .filter((name) => PARTICIPLE.test(name))
    .map((name) => `${path}: ${name} is a participle; call the function a verb with its object, or <noun>Of`)
}
