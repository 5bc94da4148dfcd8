// E-mail: plain text with the number of waiting items, a link, and a link to unsubscribe. The whole question is only behind the link.
import type { Transporter } from 'nodemailer'
import { limits } from '#kernel/limits.ts'
import type { Posted } from '../webhooks/post.ts'

export type MailOptions = {
  /** smtp:// or smtps://, with a name and a password if the server needs them. */
  readonly smtp: string
  readonly from: string
}
export type Mail = {
  readonly to: string
  readonly subject: string
  readonly text: string
  /** Where one click stops it (RFC 8058); null: for a mail that only confirms. */
  readonly stop: string | null
  readonly id: string
}
export type Mailer = { send(mail: Mail, timeoutMs?: number): Promise<Posted>; close(): void }

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the mail server refused the connection',
  ECONNECTION: 'the mail server cannot be reached',
  ESOCKET: 'the mail server cannot be reached',
  ETIMEDOUT: 'the mail server does not answer in time',
  ETLS: 'the mail server and this one found no secure connection',
  EAUTH: 'the mail server refused the name and password of --smtp',
  EENVELOPE: 'the mail server refused the address',
  EMESSAGE: 'the mail server refused the message',
  EDNS: 'the name of the mail server does not resolve',
}
/** Without the address: people read it. */
function messageFor({ code = '', responseCode }: { code?: string; responseCode?: number }): string {
  return `${reasons[code] ?? 'the mail could not be sent'}${responseCode === undefined ? '' : ` (it answered ${responseCode})`}`
}
const isTls = (message: string): boolean => /certificate|TLS|SSL|self-signed/i.test(message)

export function createMailer({ smtp, from }: MailOptions): Mailer {
  const bound = limits.webhookMsMax
  let opened: Promise<Transporter> | undefined
  /** The transport, loaded with the first mail: most servers send none. */
  const transportOf = (): Promise<Transporter> =>
    (opened ??= import('nodemailer').then(({ createTransport }) => {
      const transport: Transporter = createTransport(smtp, { from, disableFileAccess: true, disableUrlAccess: true })
      Object.assign(transport.options, { connectionTimeout: bound, greetingTimeout: bound, socketTimeout: bound, dnsTimeout: bound })
      return transport
    }))
  return {
    async send({ to, subject, text, stop, id }, timeoutMs = bound) {
      const began = performance.now()
      const late = new Promise<never>((_, failed) =>
        setTimeout(() => failed(Object.assign(new Error('late'), { code: 'ETIMEDOUT' })), timeoutMs).unref(),
      )
      const headers: Record<string, string> = { 'Auto-Submitted': 'auto-generated', 'X-Countersign-Notice': id }
      if (stop !== null) Object.assign(headers, { 'List-Unsubscribe': `<${stop}>`, 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' })
      const durationMs = (): number => Math.round(performance.now() - began)
      try {
        const transport = await transportOf()
        await Promise.race([transport.sendMail({ to: { name: '', address: to }, from, subject, text, headers }), late])
        return { status: 250, error: null, durationMs: durationMs() }
      } catch (error) {
        const { message, code, responseCode = null } = error as Error & { code?: string; responseCode?: number }
        const reason = isTls(message) ? reasons['ETLS']! : messageFor(error as { code?: string; responseCode?: number })
        return { status: responseCode, error: reason, durationMs: durationMs(), ...(code === 'ETIMEDOUT' ? { isLate: true } : {}) }
      }
    },
    close: () => void opened?.then((transport) => transport.close()),
  }
}
