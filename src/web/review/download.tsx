// A download: the unchanged bytes, compared with their checksum, never opened by the page.
import { useMutation } from '@tanstack/react-query'
import { tellError } from '../app/error-toast.tsx'
import { Icon } from '../parts/icon.tsx'
import { client } from '../server/client.ts'

/** Hands bytes to the browser under a name. */
export function saveAs(bytes: Blob, name: string): void {
  const url = URL.createObjectURL(bytes)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

export function DownloadButton({
  artifact_id,
  version,
  message = false,
}: {
  readonly artifact_id: string
  readonly version: string
  readonly message?: boolean
}) {
  const fetchIt = useMutation({
    async mutationFn() {
      const { bytes, name } = await client.download('collaboration/artifact.download', { artifact_id, version })
      saveAs(new Blob([bytes], { type: 'application/octet-stream' }), name ?? `${artifact_id}-${version}`)
    },
    onError: tellError,
  })
  return (
    <button
      type="button"
      className={message ? 'btn sm' : 'btn ghost sm icon-only'}
      aria-label="Download"
      aria-disabled={fetchIt.isPending || undefined}
      onClick={() => !fetchIt.isPending && fetchIt.mutate()}
    >
      <Icon name="download" />
      {message && 'Download'}
    </button>
  )
}
