// The tiles of C2SP: 256 hashes of one level of the tree in one file, with the paths that they are served and stored under.

export const TILE_HASHES = 256

export type TileId = { readonly level: number; readonly n: number }
/** `width`: how many hashes it holds; 256: it is full. */
export type Tile = TileId & { readonly width: number }

/** How many hashes a tile has in a tree of this size; 0: the tree does not have it. */
export function widthOf({ level, n }: TileId, size: number): number {
  const below = Math.floor(size / TILE_HASHES ** level) - n * TILE_HASHES
  return Math.max(0, Math.min(TILE_HASHES, below))
}

/** `tile/0/x001/x234/067`, and `.p/<width>` for a tile that is not full. */
export function tilePath({ level, n, width }: Tile): string {
  const groups = [String(n % 1000).padStart(3, '0')]
  for (let rest = Math.floor(n / 1000); rest > 0; rest = Math.floor(rest / 1000)) groups.unshift(`x${String(rest % 1000).padStart(3, '0')}`)
  return `tile/${level}/${groups.join('/')}${width === TILE_HASHES ? '' : `.p/${width}`}`
}

/** Null: the path is not the canonical path of a tile. */
export function tileAt(path: string): Tile | null {
  const [, level, groups, width] = /^tile\/(\d{1,2})\/((?:x\d{3}\/){0,5}\d{3})(?:\.p\/(\d{1,3}))?$/.exec(path) ?? []
  if (level === undefined) return null
  const tile = {
    level: Number(level),
    n: Number(groups!.replaceAll(/[x/]/g, '')),
    width: width === undefined ? TILE_HASHES : Number(width),
  }
  return tile.level <= 63 && tile.width >= 1 && tilePath(tile) === path ? tile : null
}
