// A Linux board: GPIO, I2C and serial ports by the kernel's own devices. Loaded for `--board linux` alone.
import type { Board } from '../port.ts'
import type { Profile } from '../profile.ts'
import { linuxLines } from './gpio.ts'
import { linuxBuses } from './i2c.ts'
import { linuxPorts } from './uart.ts'

export function linuxBoard(profile: Profile): Board {
  const [lines, buses, ports] = [linuxLines(profile), linuxBuses(profile), linuxPorts(profile)]
  return {
    name: 'linux',
    profile,
    lines,
    buses,
    ports,
    close() {
      lines.close()
      buses.close()
      ports.close()
    },
  }
}
