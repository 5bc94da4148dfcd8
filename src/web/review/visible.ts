// Invisible and direction-changing characters as visible escapes. Tabs, line ends and emoji variation selectors stay.
const HIDDEN = /(?!\t|\u{fe0f})(?:[^\P{C}\r]|\r(?!$)|[\u2028\u2029]|\p{Default_Ignorable_Code_Point})/gu
export const visible = (text: string): string =>
  text.replaceAll(HIDDEN, (character) => `\\u{${character.codePointAt(0)!.toString(16).padStart(4, '0')}}`)
