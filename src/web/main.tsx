// The entry of the page in the browser.
import './style/index.css'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { QueryClientProvider } from '@tanstack/react-query'
import { App } from './app/app.tsx'
import { applyTheme } from './app/theme.ts'
import { queries } from './server/client.ts'

applyTheme()
createRoot(document.querySelector('#page')!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
)
