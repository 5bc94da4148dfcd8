// Answers other than yes or no: one of the options, or a value in a field that fits it.
import { useEffect, useId, useRef, useState, type ChangeEvent } from 'react'
import { useCommands } from '../app/commands.ts'
import { Icon } from '../parts/icon.tsx'
import { Meter } from '../parts/meter.tsx'
import { RiskBadge } from '../parts/risk.tsx'
import { Refused } from '../parts/states.tsx'
import { bytesOf, Said } from '../parts/text.tsx'
import { client } from '../server/client.ts'
import { useDraft } from '../server/drafts.ts'
import type { Item } from '../server/types.ts'
import { brokenRule, useRules } from './rules.ts'
import { sealedFor } from './seal.ts'
import type { DecisionInput } from './send.ts'

/** The answer in the form, ready to send; null: not yet, with the reason why. */
export type Prepared = {
  readonly blocked: string | undefined
  /** The sent value is still in the form and can be sent from there again. */
  readonly isKept: boolean
  /** The answer, unless it is a secret: a typed phrase applies only to this value. */
  readonly value: string
  make(): Promise<DecisionInput>
  readonly draft: string
}

/** The risk of an option; the item shows the greatest of all options. */
function OptionRisk({ item, option }: { readonly item: Item; readonly option: string }) {
  const risk = item.options?.find(({ label }) => label === option)?.risk ?? null
  return risk === null ? null : <RiskBadge risk={risk} testId="option-risk" />
}

function Options({ item, value, choose }: { readonly item: Item; readonly value: string; choose(option: string): void }) {
  const { options = [], default_option } = item.card.payload
  const name = useId()
  useCommands(
    options
      .slice(0, 9)
      .map((option, i) => ({ title: `Choose ${option}`, keys: [String(i + 1)], group: 'This item' as const, run: () => choose(option) })),
  )
  return (
    <fieldset className="options">
      <legend className="sr">Your answer</legend>
      {options.map((option, i) => (
        <label className={value === option ? 'option on' : 'option'} key={option} data-testid="option">
          <input type="radio" className="over" name={name} aria-label={option} checked={value === option} onChange={() => choose(option)} />
          <span className="dot" />
          <span>
            <b>
              <Said>{option}</Said>
            </b>
            {option === default_option && <p>Taken if nobody answers in time</p>}
          </span>
          <span className="row">
            <OptionRisk item={item} option={option} />
            <span className="kbd" aria-hidden="true">
              {i + 1}
            </span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}

/** The choice among the options. A review has its own buttons. */
export function useChoice(item: Item): { readonly prepared: Prepared; readonly form: React.ReactNode } {
  const draft = `choice/${item.request_id}`
  const [value, choose] = useDraft(draft, '')
  const isOne = item.card.payload.options?.includes(value) === true
  return {
    form: <Options item={item} value={value} choose={choose} />,
    prepared: {
      blocked: isOne ? undefined : 'Choose an option.',
      isKept: true,
      value,
      make: () => Promise.resolve({ result: value }),
      draft,
    },
  }
}

/** Such as "PDF" for application/pdf, and "images" for image/*. */
const typeLabel = (type: string): string =>
  type.endsWith('/*') ? `${type.slice(0, -2)}s` : (type.split(/[/+.]/).at(-1) ?? type).toUpperCase()
const isOfType = (types: readonly string[] | undefined, type: string): boolean =>
  types === undefined || types.some((pattern) => pattern === type || (pattern.endsWith('/*') && type.startsWith(pattern.slice(0, -1))))

function FileField({
  item,
  file,
  choose,
  progress,
}: {
  readonly item: Item
  readonly file: File | null
  choose(file: File | null): void
  readonly progress: number | null
}) {
  const id = useId()
  const [isOver, setOver] = useState(false)
  const { max_bytes, media_types } = item.card.payload.validation ?? {}
  return (
    <div className="fieldset">
      <label className="lbl" htmlFor={id}>
        File
      </label>
      <div
        className={isOver ? 'drop over' : 'drop'}
        onDragOver={(event) => {
          event.preventDefault()
          setOver(true)
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault()
          setOver(false)
          choose(event.dataTransfer.files[0] ?? null)
        }}
      >
        <Icon name="file" />
        <span className="grow">
          {file === null ? (
            'Drop a file here, or choose one'
          ) : (
            <>
              <bdi>{file.name}</bdi>, {bytesOf(file.size)}
            </>
          )}
        </span>
        <span className="btn sm" aria-hidden="true">
          Choose a file
        </span>
        <input
          id={id}
          type="file"
          className="over"
          accept={media_types?.join(',')}
          onChange={(event) => choose(event.target.files?.[0] ?? null)}
        />
      </div>
      <p className="note">
        {max_bytes !== undefined && `Up to ${bytesOf(max_bytes)}. `}
        {media_types !== undefined && `${media_types.map(typeLabel).join(', ')} only.`}
      </p>
      <Meter label="Upload" percent={progress === null ? null : progress * 100} testId="upload-progress" />
    </div>
  )
}

export function useFile(item: Item): { readonly prepared: Prepared; readonly form: React.ReactNode } {
  const [file, choose] = useState<File | null>(null)
  const [progress, setProgress] = useState<number | null>(null)
  const [error, setError] = useState<unknown>(null)
  const { max_bytes: max, media_types: types } = item.card.payload.validation ?? {}
  const isTooLarge = file !== null && max !== undefined && file.size > max
  // A browser that does not know the type leaves it to the server.
  const isOther = file !== null && file.type !== '' && !isOfType(types, file.type)
  const wrong = isTooLarge
    ? `The file has ${bytesOf(file.size)}, and at most ${bytesOf(max)} are taken.`
    : isOther
      ? `Choose a file of type ${types!.map(typeLabel).join(', ')}.`
      : undefined
  const blocked = file === null ? 'Choose a file.' : wrong
  async function make(): Promise<DecisionInput> {
    setError(null)
    setProgress(0)
    try {
      const about = { request_id: item.request_id, name: file!.name, ...(file!.type === '' ? {} : { media_type: file!.type }) }
      const onProgress = (done: number, of: number): void => setProgress(of === 0 ? 1 : done / of)
      const added = await client.upload('execution/file.add', about, file!, { onProgress })
      return { result: { artifact_id: added.artifact_id, version: added.version } }
    } catch (failure) {
      setError(failure)
      setProgress(null)
      throw failure
    }
  }
  const form = (
    <div className="card answer">
      <FileField item={item} file={file} choose={choose} progress={progress} />
      {wrong !== undefined && <Refused error={wrong} />}
      <Refused error={error} />
    </div>
  )
  return {
    form,
    prepared: {
      blocked,
      isKept: true,
      value: file === null ? '' : `${file.name} ${file.size} ${file.lastModified}`,
      make,
      draft: `file/${item.request_id}`,
    },
  }
}

const inputTypes = { text: 'text', number: 'text', url: 'url', email: 'email', file: 'text', selection: 'text' } as const

function Selection({
  item,
  chosen,
  choose,
}: {
  readonly item: Item
  readonly chosen: readonly string[]
  choose(next: readonly string[]): void
}) {
  const { allowed_values = [], multiple = false } = item.card.payload.validation ?? {}
  const name = useId()
  return (
    <fieldset className="options">
      <legend className="lbl">Your answer</legend>
      {allowed_values.map(String).map((value) => {
        const isOn = chosen.includes(value)
        const toggle = (): void => choose(!multiple ? [value] : isOn ? chosen.filter((option) => option !== value) : [...chosen, value])
        return (
          <label className={isOn ? 'option on' : 'option'} key={value}>
            <input
              type={multiple ? 'checkbox' : 'radio'}
              className="over"
              name={name}
              aria-label={value}
              checked={isOn}
              onChange={toggle}
            />
            <span className={multiple ? 'box' : 'dot'}>{multiple && isOn && <Icon name="check" />}</span>
            <b>
              <Said>{value}</Said>
            </b>
          </label>
        )
      })}
    </fieldset>
  )
}

/** A typed or chosen value. A secret is never stored: only the field has it, until it is sent. */
export function useTyped(item: Item): { readonly prepared: Prepared; readonly form: React.ReactNode } {
  const { input_type = 'text', sensitive = false, placeholder, validation = {} } = item.card.payload
  const draft = `answer/${item.request_id}`
  const [kept, keep] = useDraft<readonly string[]>(draft, [])
  const secret = useRef<HTMLInputElement>(null)
  const rules = useRules()
  /** About a secret, only whether it is present and which rule it breaks. */
  const stateOf = (secret: string) => ({
    has: secret !== '',
    broken: secret === '' ? undefined : brokenRule(rules, item.card.payload, secret),
  })
  const [secretState, setSecret] = useState(stateOf(''))
  const id = useId()
  const field = useRef<HTMLInputElement & HTMLTextAreaElement>(null)
  useCommands([{ title: 'To the answer field', keys: ['p'], group: 'This item', run: () => (secret.current ?? field.current)?.focus() }])
  useEffect(() => () => void (secret.current && (secret.current.value = '')), [])
  const { allowed_values } = validation
  const isChoice = allowed_values !== undefined
  const isLong = input_type === 'text' && !sensitive && (validation.max === undefined || validation.max > 200)
  const text = kept[0] ?? ''
  async function make(): Promise<DecisionInput> {
    if (sensitive) {
      const value = secret.current!.value
      secret.current!.value = ''
      setSecret(stateOf(''))
      return sealedFor(item, value)
    }
    const valueOf = (text: string): string | number => allowed_values?.find((value) => String(value) === text) ?? text
    if (isChoice) return { result: validation.multiple === true ? kept.map(valueOf) : valueOf(text) }
    return { result: text }
  }
  const isEmpty = sensitive ? !secretState.has : kept.length === 0 || (text === '' && validation.min !== 0)
  const value = isChoice && validation.multiple === true ? kept : text
  const broken = isEmpty ? undefined : sensitive ? secretState.broken : brokenRule(rules, item.card.payload, value)
  const shared = { id, className: 'text', autoComplete: 'off', 'aria-invalid': broken !== undefined || undefined }
  const typing = {
    placeholder,
    value: text,
    onChange: (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement>) => keep([event.target.value]),
  }
  const form = isChoice ? (
    <Selection item={item} chosen={kept} choose={keep} />
  ) : (
    <div className="card answer">
      <div className="fieldset">
        <label className="lbl" htmlFor={id}>
          Your answer
        </label>
        {sensitive ? (
          <input {...shared} ref={secret} type="password" onChange={({ target }) => setSecret(stateOf(target.value))} />
        ) : isLong ? (
          <textarea {...shared} {...typing} ref={field} rows={4} />
        ) : (
          <input
            {...shared}
            {...typing}
            ref={field}
            type={inputTypes[input_type]}
            inputMode={input_type === 'number' ? 'decimal' : undefined}
          />
        )}
        <p className="note">
          {sensitive &&
            (item.seal_key ? 'Encrypted in this browser for the agent, delivered once. ' : 'Encrypted, delivered once, then deleted. ')}
        </p>
        {broken !== undefined && (
          <p className="refused" data-testid="broken-rule">
            {broken}
          </p>
        )}
      </div>
    </div>
  )
  return {
    form,
    prepared: {
      blocked: isEmpty ? (brokenRule(rules, item.card.payload, '') ?? 'Give an answer first.') : broken,
      isKept: !sensitive,
      value: sensitive ? '' : JSON.stringify(kept),
      make,
      draft,
    },
  }
}
