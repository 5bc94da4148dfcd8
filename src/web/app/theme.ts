// Light or dark theme: the system's, or the user's choice.
export type Theme = 'system' | 'light' | 'dark'
const KEY = 'theme'
const dark = matchMedia('(prefers-color-scheme: dark)')
export const chosenTheme = (): Theme => {
  const stored = localStorage.getItem(KEY)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}
export function applyTheme(): void {
  const chosen = chosenTheme()
  const applied = chosen === 'system' ? (dark.matches ? 'dark' : 'light') : chosen
  document.documentElement.dataset['theme'] = applied
  document.querySelector('meta[name=theme-color]')?.setAttribute('content', applied === 'dark' ? '#0d0e11' : '#f5f5f2')
}
export function chooseTheme(theme: Theme): void {
  localStorage.setItem(KEY, theme)
  applyTheme()
}
dark.addEventListener('change', applyTheme)
