// The certificate and its key: read from their files and checked at startup, before a client could meet an error.
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { HttpServer } from '#bindings/http/index.ts'
import type { Tls } from '#bindings/http/connections/tls.ts'
import { ConfigError, type TlsFiles } from './settings/config.ts'
import type { Logger } from './log.ts'

const FILE_BYTES_MAX = 1024 * 1024

export function readTls({ cert, key }: TlsFiles, nowMs: number, log: Pick<Logger, 'warn'>): Tls {
  const tls = { cert: textOf(cert, 'certificate'), key: textOf(key, 'key') }
  const certificate = certificateIn(tls.cert, cert)
  if (!certificate.checkPrivateKey(keyIn(tls.key, key)))
    throw new ConfigError(`the certificate in ${cert} and the key in ${key} do not belong together (see --tls-cert and --tls-key)`)
  if (certificate.validToDate.getTime() <= nowMs)
    log.warn({ certificate: cert, until: certificate.validTo }, 'the certificate has expired: clients will refuse it')
  return tls
}

function textOf(path: string, what: string): string {
  let bytes: Buffer
  try {
    bytes = readFileSync(path)
  } catch (error) {
    throw new ConfigError(`the TLS ${what} cannot be read: ${(error as Error).message}`)
  }
  const text = bytes.length > FILE_BYTES_MAX ? '' : bytes.toString('latin1')
  if (!text.includes('-----BEGIN ')) throw new ConfigError(`${path} holds no TLS ${what} in PEM (it has no line -----BEGIN ...-----)`)
  return text
}

function certificateIn(text: string, path: string): X509Certificate {
  try {
    return new X509Certificate(text)
  } catch (error) {
    throw new ConfigError(`${path} holds no certificate that can be used: ${(error as Error).message} (see --tls-cert)`)
  }
}

function keyIn(text: string, path: string): KeyObject {
  if (/-----BEGIN ENCRYPTED |^Proc-Type:.*ENCRYPTED/m.test(text))
    throw new ConfigError(`the key in ${path} is encrypted with a password: store it without one, readable by the server's user alone`)
  try {
    return createPrivateKey(text)
  } catch (error) {
    throw new ConfigError(`${path} holds no private key that can be used: ${(error as Error).message} (see --tls-key)`)
  }
}

/** Loads a renewed certificate without a restart; an invalid one leaves the old one in place. */
export function renewTls(http: HttpServer, files: TlsFiles, nowMs: number, log: Pick<Logger, 'info' | 'warn' | 'error'>): void {
  try {
    http.renew(readTls(files, nowMs, log))
    log.info({ certificate: files.cert }, 'the certificate was read again')
  } catch (error) {
    log.error({}, `the certificate stays as it was: ${(error as Error).message}`)
  }
}
