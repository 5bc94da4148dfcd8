// Every bound in one place, each with its reason. A bound that a user may meet is named in the refusal.

export const limits = {
  /** One request: large enough for an inline artifact of 128 KiB in base64, small enough to parse in a millisecond. */
  bodyBytesMax: 256 * 1024,
  /** Deeper JSON has no use here, and recursive code must never meet it. */
  depthMax: 32,
  keysPerObjectMax: 256,
  arrayItemsMax: 10_000,
  headerBytesMax: 16 * 1024,
  /** A client that cannot send its request in this time is holding a socket, not using it. */
  requestMsMax: 10_000,
  connectionsMax: 10_000,
  /** How long a stop waits for calls under way; a supervisor is told that the whole stop takes at most 5 s. */
  stopMsMax: 4_000,

  nameCharsMax: 200,
  idCharsMax: 80,
  goalCharsMax: 10_000,
  textCharsMax: 4_000,
  promptCharsMax: 4_000,
  labelCharsMax: 200,
  uriCharsMax: 200_000,
  criteriaMax: 100,
  inputsMax: 100,
  capabilitiesMax: 50,
  optionsMax: 50,
  evidenceMax: 50,
  commentsMax: 200,
  changesMax: 100,
  reviewersMax: 20,
  ledgerKeyCharsMax: 256,
  ledgerValueBytesMax: 64 * 1024,
  inlineBytesMax: 128 * 1024,
  idempotencyKeyCharsMax: 255,

  pageDefault: 50,
  pageMax: 200,
  /** A page of audit events ends after this much of their documents, however few events that is. */
  pageBytesMax: 1024 * 1024,
  /** Rows that one filtered page may look at before it answers with a cursor, so that no query can be made expensive. */
  examinedMax: 2_000,
  /** Facts that one call of audit.verify checks; the caller goes on with the cursor. */
  verifiedMax: 5_000,

  /** A task's image is written with every step, so what it holds is bounded: beyond this the work belongs in child tasks. */
  checkpointsPerTaskMax: 200,
  artifactsPerTaskMax: 200,
  transfersPerTaskMax: 500,
  executorsPerTaskMax: 50,
  childrenPerTaskMax: 50,
  /** A cancelled root takes its descendants along in one batch; this keeps that batch small. */
  tasksPerRootMax: 100,
  delegationDepthMax: 3,
  projectsPerSubjectMax: 500,
  keysPerSubjectMax: 50,

  /** Ten years: far beyond any real deadline, far below where dates stop being exact. */
  durationMsMax: 10 * 366 * 24 * 3_600_000,
  /** Idempotency keys answer at least this long. */
  replyMs: 8 * 24 * 3_600_000,
  sessionIdleMs: 30 * 60_000,
  sessionMs: 12 * 3_600_000,
  loginMs: 15 * 60_000,

  /** A losing decision is taken again at most this often before the caller is told. */
  attemptsMax: 8,
  /** Contracts are links one to one; whatever fans out goes through a worker. Cancelling a tree is the widest batch. */
  consequencesMax: 256,
  /** Waiting commits beyond this are refused as busy: a queue that only grows helps nobody. */
  queueMax: 2_000,
  groupMax: 512,
  cacheBytesMax: 8 * 1024 * 1024,
  cachedCountsMax: 100_000,
  /** Denials by one actor that are written into the record in a minute; the rest are only counted. */
  denialsPerMinute: 60,
  /** Questions that one agent may put to people. People's attention is the scarcest thing here. */
  asksPerMinute: 600,
  asksOpenMax: 1_000,
} as const
