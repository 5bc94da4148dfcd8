// Modes of ACP agents, by observed behaviour: in some modes an agent never asks, so a proxy would see no question. Some agents have the mode as a
// configuration option.
import { fieldsIn, textIn, type Fields } from './frames.ts'

/** Claude, Codex, Gemini, Qwen and Copilot. Codex's `agent` and the `auto` of each let a model answer. */
const NEVER_ASK: ReadonlySet<string> = new Set(
  'agent agent-full-access acceptEdits accept-edits auto auto-edit autoEdit autopilot bypassPermissions dontAsk full-access yolo'.split(
    ' ',
  ),
)
/** Replacements for a mode that never asks; the first that the agent has is used. */
const ASK = ['default', 'ask', 'manual', 'workspace-write', 'read-only', 'plan'] as const
/** Options, in addition to the mode, that turn off the questions of an agent. */
const SWITCHES: ReadonlySet<string> = new Set(['allow_all', 'allow-all', 'allowAll'])

export const doesAsk = (mode: string): boolean => (ASK as readonly string[]).includes(mode)
export const neverAsks = (mode: string): boolean => NEVER_ASK.has(mode)

const listIn = (value: unknown): Fields[] => (Array.isArray(value) ? value.map(fieldsIn) : [])
/** Values of an option can be in groups. */
const valuesIn = (option: Fields): string[] =>
  listIn(option['options']).flatMap((entry) =>
    [textIn(entry, 'value'), ...listIn(entry['options']).map((inner) => textIn(inner, 'value'))].filter((value) => value !== null),
  )

export const isMode = (option: Fields): boolean => textIn(option, 'category') === 'mode' || textIn(option, 'id') === 'mode'
export const isSwitch = (id: string | null): boolean => id !== null && SWITCHES.has(id)
const isOn = (value: unknown): boolean => value === true || value === 'on' || value === 'true' || value === 'enabled'

/** A request that the proxy sends before the answer to `session/new`, `load` or `resume` passes. */
export type Pin = {
  readonly method: 'session/set_mode' | 'session/set_config_option'
  readonly params: Fields
  readonly from: string
  readonly to: string
}

/** The modes that a session must be set to first, so that it asks. `to` empty: it has no asking mode. */
export function pinsFor(sessionId: string, answer: Fields): Pin[] {
  const { currentModeId, availableModes } = fieldsIn(answer['modes'])
  const options = listIn(answer['configOptions'])
  const pins: Pin[] = []
  const modes = options.filter(isMode)
  if (typeof currentModeId === 'string' && neverAsks(currentModeId)) {
    const ids = listIn(availableModes).map((mode) => textIn(mode, 'id'))
    const to = ASK.find((mode) => ids.includes(mode)) ?? ''
    pins.push({ method: 'session/set_mode', params: { sessionId, modeId: to }, from: currentModeId, to })
  }
  for (const option of modes) {
    const from = textIn(option, 'currentValue')
    if (from === null || !neverAsks(from)) continue
    const values = valuesIn(option)
    const to = ASK.find((mode) => values.includes(mode)) ?? ''
    // An agent with both lists keeps them equal.
    if (pins.some((pin) => pin.from === from && pin.to === to)) continue
    pins.push({ method: 'session/set_config_option', params: { sessionId, configId: option['id'], value: to }, from, to })
  }
  for (const option of options) {
    const id = textIn(option, 'id')
    if (!isSwitch(id) || !isOn(option['currentValue'])) continue
    const to = typeof option['currentValue'] === 'boolean' ? false : (valuesIn(option).find((value) => !isOn(value)) ?? '')
    const kind = typeof to === 'boolean' ? { type: 'boolean' } : {}
    pins.push({
      method: 'session/set_config_option',
      params: { sessionId, configId: id, ...kind, value: to },
      from: id!,
      to: to === '' ? '' : 'off',
    })
  }
  return pins
}

/** The answer as the editor gets it after the pins. */
export function pinnedAnswer(answer: Fields, pins: readonly Pin[]): Fields {
  const modes = fieldsIn(answer['modes'])
  const mode = pins.find(({ from }) => from === modes['currentModeId'])
  return {
    ...answer,
    ...(mode === undefined ? {} : { modes: { ...modes, currentModeId: mode.to } }),
    ...(Array.isArray(answer['configOptions'])
      ? { configOptions: listIn(answer['configOptions']).map((option) => pinnedOption(option, pins)) }
      : {}),
  }
}

function pinnedOption(option: Fields, pins: readonly Pin[]): Fields {
  const pin = pins.find(({ params }) => params['configId'] === option['id'])
  if (pin !== undefined) return { ...option, currentValue: pin.params['value'] }
  const alike = isMode(option) ? pins.find(({ from }) => from === option['currentValue']) : undefined
  return alike === undefined ? option : { ...option, currentValue: alike.to }
}

/** The mode that the editor's request switches to, if a person must approve it; null: it passes. `modes`: the ids of options with a mode. */
export function switchIn(method: string, params: unknown, modes: ReadonlySet<string>): string | null {
  if (method === 'session/set_mode') {
    const mode = textIn(params, 'modeId')
    return mode === null || doesAsk(mode) ? null : mode
  }
  if (method !== 'session/set_config_option') return null
  const id = textIn(params, 'configId')
  const { value } = fieldsIn(params)
  if (isSwitch(id)) return isOn(value) ? id : null
  if (id === null || !(modes.has(id) || id === 'mode') || typeof value !== 'string') return null
  return doesAsk(value) ? null : value
}

/** The ids of the options with a mode. */
export const modeOptionsIn = (answer: Fields): string[] =>
  listIn(answer['configOptions']).flatMap((option) => (isMode(option) && textIn(option, 'id') !== null ? [textIn(option, 'id')!] : []))
