// Upper bounds of time for tests: much more than a loaded machine needs, and less than the bound that must not be waited for.

export const SOON_MS = 20_000
