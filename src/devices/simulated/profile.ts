// The default profile of the simulated board: one of everything that the tools support.

export const simulatedProfile = {
  board: 'simulated',
  model: 'bench',
  gpio: {
    '17': { name: 'LED', direction: 'out', safe: 0 },
    '18': { name: 'RELAY', direction: 'out', safe: 0 },
    '22': { name: 'VALVE_A', direction: 'out', safe: 0 },
    '23': { name: 'VALVE_B', direction: 'out', safe: 0 },
    '24': { name: 'HEATER', direction: 'out', safe: 0, risk_level: 3 },
    '27': { name: 'BUTTON', direction: 'in' },
    '5': { name: 'FAN', direction: 'out', held: 'kernel' },
  },
  interlocks: [{ never: { '22': 1, '23': 1 }, message: 'never both valves' }],
  wires: [[18, 27]],
  i2c: {
    '1': {
      '0x48': { name: 'temp', chip: 'tmp105', celsius: 25 },
      '0x50': { name: 'dac', registers: 256, limits: { '0x10': { min: 0, max: 100, slew: 10 } } },
      '0x51': { name: 'slow', registers: 256, delay_ms: 800 },
      '0x76': { name: 'taken', held: 'kernel' },
    },
  },
  uart: { uart0: { peer: 'invert' } },
  sensors: { temp: { i2c: [1, '0x48'], chip: 'tmp105', unit: 'Cel' } },
}
