// Characters that are not seen or that turn others around, spelled out as escapes. Tabs, the end of a line and the form of an emoji mean what they say.
const HIDDEN = /(?!\t|\u{fe0f})(?:[^\P{C}\r]|\r(?!$)|[\u2028\u2029]|\p{Default_Ignorable_Code_Point})/gu
export const visible = (text: string): string =>
  text.replaceAll(HIDDEN, (one) => `\\u{${one.codePointAt(0)!.toString(16).padStart(4, '0')}}`)
