// An input: a value in a field that fits it, or a file.
import { useFile, useTyped } from '../answer.tsx'
import type { KindProps } from './kind.ts'
import { formKind } from './send-bar.tsx'

const FileKind = formKind(useFile)
const TypedKind = formKind(useTyped)

export function ProvideKind(props: KindProps) {
  return props.item.card.payload.input_type === 'file' ? <FileKind {...props} /> : <TypedKind {...props} />
}
