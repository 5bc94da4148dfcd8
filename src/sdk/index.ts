// The public exports of the SDK, for Node and for browsers. The transport over a Unix socket is for Node alone: `countersign/node`.
export {
  createClient,
  deliver,
  each,
  type AnyField,
  type CallName,
  type Client,
  type ClientOptions,
  type Input,
  type Output,
  type StreamName,
} from './client.ts'
export { CountersignError } from './errors.ts'
export { httpTransport, type HttpTransportOptions } from './transport/http.ts'
export type { Answered, Hxp, HxpOptions, QuestionOptions, Questions } from './hxp.ts'
export type { InputType } from './questions.ts'
export {
  Declined,
  NotAnswered,
  NotApproved,
  ReceiptDoubted,
  type Answer,
  type AnswerReceipt,
  type AskedRequest,
  type Remark,
  type WaitOptions,
} from './await-answer.ts'
export { phraseFor } from './phrase.ts'
export { sealAnswer, type SealKey } from './seal.ts'
export type { CallOptions, Downloaded, Followed, FollowOptions, Progress, Transport, UploadOptions } from './transport/transport.ts'
export {
  canonicalDigest,
  verifyReceipt,
  type ReceiptClaims,
  type ReceiptDoubt,
  type ReceiptVerdict,
  type VerifyOptions,
} from './receipt.ts'
export { verifyBundle, type BundleVerdict } from './bundle/verify.ts'
