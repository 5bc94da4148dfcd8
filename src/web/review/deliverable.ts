// A deliverable as shown to a reviewer: the files of a patch, a text compared with its parent version, a picture, or the reason why there
// is nothing to show.
import { useMemo } from 'react'
import { useQuery } from '@tanstack/react-query'
import { contentOf, type Content } from './bytes.ts'
import { fileOfTexts, filesOfPatch, isUnifiedDiff, type DiffFile } from './diff.ts'

export const useContent = (artifact_id: string | undefined, version: string | null) =>
  useQuery({
    queryKey: ['content', artifact_id, version],
    queryFn: () => contentOf(artifact_id!, version!),
    enabled: artifact_id !== undefined && version !== null,
    staleTime: Number.POSITIVE_INFINITY,
  })

export function filesOf(content: Content, base: Content | null): DiffFile[] {
  if (content.text === null) return []
  // A patch already describes its changes, so show it as it is and ignore the previous version.
  const isPatch =
    content.artifact.payload.kind === 'diff' || content.artifact.payload.media_type === 'text/x-diff' || isUnifiedDiff(content.text)
  const patch = isPatch || base === null ? filesOfPatch(content.text) : null
  if (patch !== null) return patch
  const { payload, type } = content.artifact
  return [fileOfTexts(payload.name ?? type, base?.text ?? null, content.text)]
}

export type Deliverable =
  | 'coming'
  | { readonly error: unknown; again(): void }
  | { readonly files: readonly DiffFile[]; readonly image: string | null; readonly why: string | null }

/** One version, compared with its parent version. */
export function useDeliverable(of: { readonly artifact_id: string; readonly version: string } | undefined): Deliverable {
  const content = useContent(of?.artifact_id, of?.version ?? null)
  const parent = content.data?.artifact.parent_version ?? null
  const before = useContent(of?.artifact_id, parent)
  const isWhole = content.data !== undefined && (parent === null || before.data !== undefined || before.error !== null)
  const files = useMemo(() => (isWhole ? filesOf(content.data, before.data ?? null) : []), [isWhole, content.data, before.data])
  const error = of === undefined ? new Error('the item names no deliverable') : content.error
  if (error !== null) return { error, again: () => void content.refetch() }
  return isWhole ? { files, image: content.data.image, why: content.data.why } : 'coming'
}
