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

/** Sentences of these words have no subject that can be named, and cannot be searched for. */
const SUBJECTLESS = /^(What|Who|Whoever|Whose|Whom)\b/

/** Every comment of a source file as one text, with its line. A comment ends where a line without one begins. */
function commentsIn(text: string): { readonly line: number; readonly words: string }[] {
  const found: { line: number; words: string }[] = []
  let block: { line: number; words: string } | null = null
  for (const [index, raw] of text.split('\n').entries()) {
    const line = index + 1
    if (block) {
      block.words += ` ${raw.replace(/^\s*\*(?!\/) ?/, '').split('*/')[0]!}`
      if (raw.includes('*/')) block = null
      continue
    }
    const opened = /(?:^|\s|\{)\/\*\*? ?(.*)$/.exec(raw)?.[1]
    const whole = /^\s*\/\/ ?(.*)$/.exec(raw)?.[1]
    const last = found.at(-1)
    if (whole !== undefined && last && isLineBefore(text, last.line, line)) last.words += ` ${whole}`
    else if (whole !== undefined) found.push({ line, words: whole })
    else if (opened !== undefined) {
      const made = { line, words: opened.split('*/')[0]! }
      found.push(made)
      if (!opened.includes('*/')) block = made
    } else {
      const behind = /\s\/\/ (.*)$/.exec(raw)?.[1]
      if (behind !== undefined) found.push({ line, words: behind })
    }
  }
  return found
}
/** Nothing but lines of one comment lie between. */
const isLineBefore = (text: string, from: number, to: number): boolean =>
  text
    .split('\n')
    .slice(from - 1, to)
    .every((line) => /^\s*\/\//.test(line))

/** No sentence of a comment begins with What, Who or Whoever: it begins with the thing that it is about. */
export function commentProblems(path: string, text: string): string[] {
  return commentsIn(text).flatMap(({ line, words }) =>
    words
      .trim()
      .split(/(?<=[.!?])\s+/)
      .filter((sentence) => SUBJECTLESS.test(sentence))
      .map((sentence) => `${path}:${line}: "${sentence.slice(0, 60)}" begins without naming its subject; begin with the thing`),
  )
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
