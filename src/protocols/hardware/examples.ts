// Scenes that the examples and the derived tests of the server's part start from: devin, an agent of alice's, has a device on a bench.
import type { Step } from '#kernel/declare/operation.ts'

const DEVICE = 'dev_01M7GMWX16CYD5TMA0423FKEE9'
const registered: Step[] = [
  {
    as: 'devin',
    call: 'hardware/device.register',
    input: { device_id: DEVICE, name: 'Bench', jwk: { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' } },
  },
]
const line = `{"board":"simulated","device_id":"${DEVICE}","event":"daemon.start","prev":"","seq":1,"ts":"2026-11-17T00:00:00.000Z","v":1,"version":"0.1.0"}`

export const scenes: Readonly<Record<string, readonly Step[]>> = {
  empty: [],
  registered,
  recorded: [...registered, { as: 'devin', call: 'hardware/event.record', input: { device_id: DEVICE, lines: [line] } }],
}
