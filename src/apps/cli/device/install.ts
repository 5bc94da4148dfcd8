// The installation of the daemon as a service: an unprivileged user with the groups of its buses, a closed list of devices, a filter of system calls.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { readPolicies } from '../../device/policies-file.ts'
import { CliError, exits, usage } from '../exit-codes.ts'
import type { Context } from '../derive/command.ts'

const UNIT = '/etc/systemd/system/countersign-device.service'
const [DATA, CONFIG, USER] = ['/var/lib/countersign-device', '/etc/countersign-device', 'countersign']

const devicesIn = (): string[] => readdirSync('/dev').filter((name) => /^(?:gpiochip\d+|i2c-\d+|ttyAMA\d+|ttyUSB\d+|serial\d+)$/.test(name))

export const unitText = (program: string, devices: readonly string[], writes: readonly string[]): string => `[Unit]
Description=Countersign hardware daemon
After=local-fs.target

[Service]
ExecStart=${process.execPath} ${program} device up --board linux --data ${DATA} --policies ${CONFIG}/policies.json --socket /run/${USER}/device.sock
Restart=on-failure
User=${USER}
Group=${USER}
SupplementaryGroups=gpio i2c dialout
RuntimeDirectory=${USER}
RuntimeDirectoryMode=0750
StateDirectory=countersign-device
StateDirectoryMode=0700
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
PrivateTmp=yes
ReadWritePaths=${[DATA, ...writes.map((path) => `-${path}`)].join(' ')}
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
DevicePolicy=closed
${devices.map((name) => `DeviceAllow=/dev/${name} rw`).join('\n')}
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @mount @debug @module @reboot @swap @obsolete
SystemCallFilter=@chown
TasksMax=256
MemoryMax=512M

[Install]
WantedBy=multi-user.target
`

/** The folders that the policies let clients write to: to the service everything else is read-only. */
function writtenTo(): string[] {
  const path = `${CONFIG}/policies.json`
  if (!existsSync(path)) return []
  try {
    const { named } = readPolicies(JSON.parse(readFileSync(path, 'utf8')), DATA, null)
    return [...new Set(named.flatMap(({ policy }) => policy.write))].toSorted()
  } catch (error) {
    throw usage(`${path}: ${(error as Error).message}`)
  }
}

export function installDevice({ io }: Context, isDry: boolean): void {
  const program = resolve(import.meta.dirname, '../../../../bin/countersign.js')
  const found = devicesIn()
  const unit = unitText(program, found.length > 0 ? found : ['gpiochip0', 'i2c-1', 'ttyAMA0'], writtenTo())
  if (isDry) {
    io.out.write(
      `# group and user: ${USER} (members of the group can use the socket)\n# folders: ${DATA} (0700), ${CONFIG} (0755)\n# ${UNIT}\n${unit}`,
    )
    return
  }
  if (process.getuid?.() !== 0)
    throw new CliError(exits.refused, 'NOT_ROOT', 'installing needs root', 'look at it first with --dry-run, then use sudo')
  const run = (...command: [string, ...string[]]): void =>
    void execFileSync(command[0], command.slice(1), { stdio: ['ignore', 'inherit', 'inherit'] })
  try {
    run('groupadd', '--force', '--system', USER)
    try {
      execFileSync('id', ['-u', USER], { stdio: 'ignore' })
    } catch {
      run('useradd', '--system', '--gid', USER, '--home-dir', DATA, '--no-create-home', '--shell', '/usr/sbin/nologin', USER)
    }
    // Independent of the umask, and also for a folder of an earlier version: group members use the socket and read nothing.
    for (const [folder, mode] of [
      [DATA, 0o700],
      [CONFIG, 0o755],
    ] as const) {
      mkdirSync(folder, { recursive: true })
      chmodSync(folder, mode)
    }
    run('chown', `${USER}:${USER}`, DATA)
    writeFileSync(UNIT, unit, { mode: 0o644 })
  } catch (error) {
    throw new CliError(exits.refused, 'NOT_INSTALLED', (error as Error).message)
  }
  io.out.write(
    `${UNIT} is there. Write ${CONFIG}/policies.json, then: systemctl daemon-reload && systemctl enable --now countersign-device\n`,
  )
}
