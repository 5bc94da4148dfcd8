// Bounded maps: at the bound, a new entry replaces the oldest one.

export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, max: number): void {
  if (map.size >= max && !map.has(key)) map.delete(map.keys().next().value!)
  map.set(key, value)
}
