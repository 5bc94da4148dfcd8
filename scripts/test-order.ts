// In which order the test files are run: those that take longest come first, so that none of them is left alone at the end.

/** What takes longer than about twenty seconds on a machine with two cores, the longest first. */
export const longest: readonly string[] = ['test/simulation/simulation.test.ts', 'test/tours.test.ts']

const rankOf = (file: string): number => (longest.includes(file) ? longest.indexOf(file) : longest.length)

export const inOrder = (files: readonly string[]): string[] =>
  files.toSorted((one, other) => rankOf(one) - rankOf(other) || (one < other ? -1 : 1))
