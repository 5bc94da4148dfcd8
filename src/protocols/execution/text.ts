export const shown = (text: string): string => text
