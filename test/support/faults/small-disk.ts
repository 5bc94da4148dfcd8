// A small file system for a test that fills it, where this user may mount one; elsewhere the test is skipped, and says so.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

export type Disk = { readonly path: string; fill(): void; free(): void; remount(mode: 'ro' | 'rw'): void }

/** `size` as mount takes it. */
export function smallDisk(t: TestContext, size = '2m'): Disk | null {
  const path = mkdtempSync(join(tmpdir(), 'countersign-small-'))
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', path]).status === 0
  t.after(() => {
    // Its servers may take a moment to be gone.
    if (isMounted) spawnSync('umount', ['-l', path])
    rmdirSync(path)
  })
  if (!isMounted) t.skip('this user may not mount a file system')
  const filling = join(path, 'filling')
  return isMounted
    ? {
        path,
        fill: () => fill(filling),
        free: () => rmSync(filling),
        remount: (mode) => assert.equal(spawnSync('mount', ['-o', `remount,${mode}`, path]).status, 0),
      }
    : null
}

function fill(path: string): void {
  // Large pieces first: a file system of many megabytes fills in a moment.
  for (const size of [1 << 20, 4_096])
    try {
      for (;;) appendFileSync(path, Buffer.alloc(size))
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC')
    }
}
