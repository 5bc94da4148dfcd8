// Light or dark theme: the system's, or the one the user chose here.
export type Theme = 'system' | 'light' | 'dark'
const KEY = 'theme'
const dark = matchMedia('(prefers-color-scheme: dark)')
export const chosenTheme = (): Theme => {
  const kept = localStorage.getItem(KEY)
  return kept === 'light' || kept === 'dark' ? kept : 'system'
}
export function applyTheme(): void {
  const chosen = chosenTheme()
  const shown = chosen === 'system' ? (dark.matches ? 'dark' : 'light') : chosen
  document.documentElement.dataset['theme'] = shown
  document.querySelector('meta[name=theme-color]')?.setAttribute('content', shown === 'dark' ? '#0d0e11' : '#f5f5f2')
}
export function chooseTheme(theme: Theme): void {
  localStorage.setItem(KEY, theme)
  applyTheme()
}
dark.addEventListener('change', applyTheme)
