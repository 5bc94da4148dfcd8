// Limits: every bound in one place, each with its reason. A refusal names the bound that a user has reached.

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
  /** How long a stop waits for calls in flight. The documented maximum for the whole stop is 5 s. */
  stopMsMax: 4_000,

  /** One line of JSON-RPC: the same as one body. */
  lineBytesMax: 256 * 1024,
  /** One line of an MCP client or server: images in results are large, and the official transports have the same bound. */
  mcpLineBytesMax: 10 * 1024 * 1024,
  /** One line of an ACP agent or editor: diffs hold whole files, and the official SDK has the same bound. */
  acpLineBytesMax: 32 * 1024 * 1024,
  /** Options of one permission question: agents offer three to five. */
  acpOptionsMax: 50,
  /** The title of a call in a message of the proxy. */
  acpTitleCharsMax: 200,
  /** Requests of either side that wait for an answer. */
  acpPendingMax: 1_000,
  /** Calls of an agent whose arguments are remembered for a later question, and the bytes of one. */
  acpCallsKnownMax: 200,
  /** The time that an agent without its editor gets to finish its turn after the last answer. */
  acpOrphanMsMax: 10 * 60_000,
  /** A larger result of a tool is named by size and hash: it would fill the window of a model. */
  gateResultBytesMax: 1024 * 1024,
  /** Calls whose arguments a gate remembers while people decide, and their bytes. Beyond the bound a client must repeat the arguments. */
  gateCallsKnownMax: 10_000,
  gateCallsBytesMax: 32 * 1024 * 1024,
  /** An allowed call begins within this time: no gate has to keep one, because the next is allowed just as fast. */
  gateAllowedMs: 60 * 60_000,
  /** Calls in one long poll of a gate: all of them are read whenever one is decided. A gate with more calls uses several polls. */
  gateCallsAwaitedMax: 500,
  /** Agents that a gate of the server serves at a time: each has its own connection to the upstream, which can be a process. */
  gateAgentsMax: 64,
  /** Actors with sessions at /mcp at a time, and the sessions of one actor: some 50 kB each. The least recently used one ends. */
  mcpActorsMax: 1_024,
  mcpSessionsMax: 256,
  /** Characters of an idempotency key that a tool takes: the key of the call has a prefix. */
  mcpKeyCharsMax: 200,
  /** How long `ask_await` waits in one call: longer than most clients let a call run. */
  mcpWaitSecondsMax: 600,
  /** Sessions of clients with `initialize`, for one agent at one gate: the least recently used one ends. */
  gateSessionsMax: 64,
  /** Calls in one JSON-RPC batch. */
  batchMax: 100,
  /** Calls in flight on one connection; further ones wait in the sender's buffer. */
  callsPerConnectionMax: 64,
  followsPerConnectionMax: 16,
  /** Unsent bytes of one connection: above the first limit its calls and streams pause, above the second it is closed. */
  unsentBytesHigh: 256 * 1024,
  unsentBytesMax: 16 * 1024 * 1024,
  /**
   * Answers that wait to be read, of one actor and of all together. Beyond the first, the actor is given no more, and beyond either, connections that
   * do not read are cut: connections that read less than this many bytes in the time. Within its share an actor is served, however much other actors hold.
   */
  unsentPerActorBytesMax: 16 * 1024 * 1024,
  unsentTotalBytesMax: 64 * 1024 * 1024,
  unsentShareBytes: 512 * 1024,
  unsentProgressBytesMin: 16 * 1024,
  unsentStaleMs: 1_000,
  /** Requests of one HTTP connection that are processed at a time, that it can pipeline, and that all connections together can pipeline. */
  requestsUnderWayMax: 2,
  requestsAheadMax: 100,
  requestsAheadTotalMax: 10_000,
  /** Bytes of public documents that one address can read in a minute without a credential. */
  publicBytesPerMinute: 64 * 1024 * 1024,
  /** The longest long poll: no longer than the usual proxies keep a silent connection. */
  waitMsMax: 60_000,
  /** Agents end a hook after ten minutes and then run the tool. */
  hookWait: 'PT9M',
  /** An agent's event holds the whole content of a file that it writes; a larger one is refused before it is parsed. */
  hookEventBytesMax: 4 * 1024 * 1024,
  /** Left and deferred calls of hooks that one server remembers: two short texts each. */
  leftCallsMax: 10_000,
  /** A hook's note of a left call: after this time its session does not come back. */
  leftCallMsMax: 30 * 86_400_000,
  /** The time of a hook beyond its wait: below the 60 s after which the agent ends it and runs the tool. */
  hookGraceMs: 30_000,
  /** An agent seen within this time counts as connected. Longer than a long poll, so that an agent that waits for messages is connected. */
  connectedMs: 90_000,
  /** Long polls of one actor, and of all actors: each costs a connection and a few hundred bytes. */
  waitsPerActorMax: 64,
  waitsMax: 10_000,
  /** Processes of this machine that speak JSON-RPC. */
  rpcConnectionsMax: 256,

  /** Streams of one actor, and of all together: each costs a socket and a look at its rights twice a second. */
  streamsPerActorMax: 200,
  streamsMax: 10_000,
  streamsPerSocketMax: 32,
  /** How often each subscriber is re-authorized: a revoked one is cut off within a second. */
  streamRecheckMs: 500,
  /** Shorter than the 60 s after which the usual proxies take a silent connection for dead. */
  streamBeatMs: 15_000,
  /** Bytes that are handed to one socket at a time; the rest waits where all subscribers share it. */
  streamPortionBytes: 256 * 1024,
  streamPortionEvents: 256,
  /** A subscriber that reads nothing for `streamSlowMs` with this much unsent is closed, and told where to resume. */
  streamUnsentBytesMax: 1024 * 1024,
  streamUnsentEventsMax: 256,
  streamSlowMs: 1_000,
  /** A subscriber that reads nothing for this long is closed, however little is unsent. */
  streamStuckMs: 30_000,
  /** The time for a client to read the last message of a closing connection; less when the whole server stops. */
  streamLingerMs: 5_000,
  streamStopMs: 1_000,
  /** Events buffered for the subscribers of one query; a subscriber that is further behind reads from the store. */
  streamRingEventsMax: 2_048,
  streamRingBytesMax: 8 * 1024 * 1024,
  /** Serialized events cached for further subscribers, over all streams. */
  streamWrittenBytesMax: 16 * 1024 * 1024,

  socketsMax: 10_000,
  socketFrameBytesMax: 64 * 1024,
  socketCommandsPerMinute: 600,
  /** A socket must authenticate within this time, and only a few per address may be unauthenticated concurrently. */
  socketSilentMs: 5_000,
  socketsSilentPerAddressMax: 50,

  /** Unused socket addresses handed out by a bridge: each is valid once, for one request, until it expires. */
  bridgeTicketsMax: 20_000,
  bridgeTicketMs: 5 * 60_000,
  /** Twice the open questions of an agent: as many again while they are answered. */
  bridgeSocketsPerActorMax: 2_000,
  /** The size of an inbox answer if the request names no limit. */
  bridgeInboxMax: 1_000,
  bridgeInboxBytesMax: 4 * 1024 * 1024,
  /** A client that counts pages instead of using a cursor makes the server read everything before its page. */
  bridgeOffsetMax: 1_000,

  /** A2A: ids that other systems choose, and the parts of one message: enough for UUIDs with a prefix, and for a message with attachments. */
  a2aIdCharsMax: 200,
  a2aPartsMax: 100,
  a2aUrlCharsMax: 2_000,
  a2aTokenCharsMax: 2_000,
  /** Messages of a task that an answer shows, newest last. */
  a2aHistoryMax: 100,
  /** Tasks of one caller that a list looks at: they are sorted by their last change, which no index holds. */
  a2aTasksMax: 1_000,
  /** How long a message waits for the end of its task before it is answered with the task as it is: proxies cut a silent request. */
  a2aWaitMs: 10 * 60_000,
  /** Agent cards are public: how long others may keep one. */
  a2aCardSecondsMax: 300,
  /** Remote agents that this server delegates to, each with a waiting call, and the bytes of one of their answers. */
  a2aRemotesMax: 1_000,
  a2aAnswerBytesMax: 8 * 1024 * 1024,
  /** A remote task is asked for its state this often: soon after a change, then ever later until the next one. */
  a2aPollMsMin: 500,
  a2aPollMsMax: 15_000,
  /** Addresses that hear of changes of one task: one for each system of its caller. Each change is a post to all of them. */
  a2aPushesPerTaskMax: 10,
  /** How often it is looked whether the work of such an address has ended: it is kept up to this much longer. */
  a2aPushLookMs: 24 * 3_600_000,
  /** Calls in a row that a remote agent may fail to answer, over about 15 minutes, before its run fails. */
  a2aTriesMax: 20,
  a2aCallMsMax: 30_000,

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
  actionsMax: 100,
  grantsPerTaskMax: 200,
  /** Grants that a task begins with: they are one batch with it. */
  firstGrantsMax: 50,
  amendmentsPerTaskMax: 1_000,
  stateBytesMax: 64 * 1024,
  evidenceMax: 50,
  claimEvidenceMax: 20,
  commentsMax: 200,
  changesMax: 100,
  externalRefsMax: 20, // systems of others that a task names
  reviewersMax: 20,
  ledgerKeyCharsMax: 256,
  ledgerValueBytesMax: 64 * 1024,
  inlineBytesMax: 128 * 1024,
  idempotencyKeyCharsMax: 255,

  /** The length of an agent's question to a person: short enough to be read. The draft says 2 to 6 options and 500 characters of context. */
  questionCharsMax: 300,
  contextCharsMax: 500,
  choicesMin: 2,
  choicesMax: 6,
  choiceCharsMax: 80,
  detailsBytesMax: 16 * 1024,
  detailsDepthMax: 12,
  allowedValuesMax: 100,
  mediaTypesMax: 20,
  reasonCharsMax: 2_000,
  /** Typed by hand before a grave yes. */
  phraseCharsMax: 40,
  /** Answers that people fill in. */
  linkCharsMax: 2_000,
  emailCharsMax: 254,
  numeralCharsMax: 40,

  /** The bytes of one artifact, unless the operator says otherwise. */
  blobBytesMax: 64 * 1024 * 1024,
  /** Concurrent uploads of one actor, and of all together: each holds a file and a socket. */
  uploadsPerActorMax: 4,
  uploadsMax: 64,
  downloadsPerActorMax: 16,
  downloadsMax: 256,
  /** Bytes that must arrive in each `requestMsMax` spent waiting for them: a large file can take long, an idle socket must not. */
  uploadProgressBytesMin: 16 * 1024,
  /** A client that reads nothing for this long is not downloading. */
  downloadIdleMsMax: 30_000,
  uploadsPerTaskMax: 500,
  /** Bytes that are stored for one task, one actor and one project, and room that uploads leave on the disk, unless the operator says otherwise. */
  bytesPerTaskMax: 2 * 1024 * 1024 * 1024,
  bytesPerActorMax: 8 * 1024 * 1024 * 1024,
  bytesPerProjectMax: 32 * 1024 * 1024 * 1024,
  diskFloorBytes: 512 * 1024 * 1024,
  /** Uploads of one actor that no artifact names yet. */
  uploadsOpenMax: 100,
  /** Files that people upload for one request before they answer it with one of them. */
  filesPerRequestMax: 20,
  /** How long bytes without a reference are kept. */
  uploadMs: 24 * 3_600_000,

  pageDefault: 50,
  pageMax: 200,
  /** A page ends after this many bytes were read for it, however few items it has. */
  pageBytesMax: 1024 * 1024,
  /** Rows that one filtered page examines before it returns with a cursor, so that no query can be made expensive. */
  examinedMax: 2_000,
  /** Steps of an explanation: each is a few reads. Real paths have fewer than ten. */
  whyStepsMax: 50,
  /** Versions of one document, and facts of one explanation, that are looked through. */
  whyVersionsMax: 500,
  /** A text search also ends its page after this many characters: long items cost as much as many. */
  searchedCharsMax: 4 * 1024 * 1024,
  /** Changed documents that the text index queues for the next search: above this, the next search rebuilds the index. */
  textsChangedMax: 100_000,
  /** Groups of documents, such as asking agents, whose names a search checks; with more groups it scans item by item. */
  textGroupsMax: 500,
  /** A search is some words, not a document. */
  searchCharsMax: 200,
  /** Facts that one call of audit.verify checks; the caller continues with the cursor. */
  verifiedMax: 5_000,

  /** Every step writes the whole image of a task, so its contents are bounded: larger work belongs in child tasks. */
  checkpointsPerTaskMax: 200,
  /** Among the last questions of its task an invocation looks for the action that a person approved. */
  approvalsLookedAt: 50,
  artifactsPerTaskMax: 200,
  versionsPerArtifactMax: 500,
  transfersPerTaskMax: 500,
  executorsPerTaskMax: 50,
  childrenPerTaskMax: 50,
  /** A cancelled root takes its descendants along in one batch; this keeps that batch small. */
  tasksPerRootMax: 100,
  delegationDepthMax: 3,

  /** An agent's declaration about itself: every search for an agent reads it. */
  tagsMax: 20,
  manifestBytesMax: 8 * 1024,
  concurrencyMax: 10_000,
  /** The result of a run: large things are artifacts. */
  runResultBytesMax: 16 * 1024,
  /** Every report of progress is a fact of the record. */
  progressPerRunMax: 10_000,
  /** Steering messages that an agent has not fetched: above this, the oldest remain only in the steering log. */
  messagesPerRunMax: 100,
  /** Runs whose messages are handed over in one call. */
  takenMax: 50,
  /** Runs that end in the same batch as the run that they work for. */
  cascadeMax: 200,
  leaseMsDefault: 60_000,
  leaseMsMax: 3_600_000,
  /** The time that an answer is reserved for the process that asked, before another process of the agent can take it. */
  answerMs: 2_000,
  workerCharsMax: 100,
  /** One post to a webhook: after this timeout it is delivered again, and only this much of the response is read. */
  webhookMsMax: 10_000,
  webhookAnswerBytesMax: 64 * 1024,
  /** Concurrent posts, and attempts of one post (over two days) before its run fails, unless the operator sets other values. */
  webhooksMax: 256,
  webhookAttemptsMax: 20,
  webhookBackoffMsMax: 8 * 3_600_000,
  /** How long messages are also signed with the previous secret after a change. */
  webhookSecretMs: 24 * 3_600_000,
  /** Webhooks of one person or one agent. */
  hooksPerSubjectMax: 10,
  /** Webhooks of all agents of one person. */
  hooksPerOwnerMax: 1_000,
  /** Event channels of one project, types in the filter of one, events and bytes of one batch, and the longest wait between two attempts. */
  eventChannelsPerProjectMax: 10,
  eventTypesMax: 50,
  eventsPerBatchMax: 100,
  eventBatchBytesMax: 512 * 1024,
  eventBackoffMsMax: 5 * 60_000,
  /** Events that a channel did not want, after which it is written down how far it came. */
  eventsSkippedMax: 1_000,
  /** Notices written in one batch, and notices that may be queued before the record is read instead. */
  noticesPlannedMax: 64,
  noticesWaitingMax: 5_000,
  /** Attempts of one message in the log, the characters about each, and how long the log entry is kept. */
  deliveryAttemptsKept: 10,
  deliveryErrorCharsMax: 300,
  deliveryLogMs: 30 * 24 * 3_600_000,
  /** Output of a child process: altogether, and in one line. A hundred megabytes are a mistake, not a result. */
  childOutputBytesMax: 10 * 1024 * 1024,
  childLineBytesMax: 256 * 1024,
  /** The end of a child's error output, shown to people when it fails. */
  childErrorBytesMax: 4 * 1024,
  /** Unread input of a child process; above this the child counts as unresponsive. */
  childUnreadBytesMax: 1024 * 1024,
  childMsDefault: 3_600_000,
  childMsMax: 7 * 24 * 3_600_000,
  /** How often a failed child is restarted, and how long it is kept while a person has to answer. */
  childTriesDefault: 3,
  childTriesMax: 20,
  childWaitMs: 5 * 60_000,
  /** Between the request to end and the end. */
  childGraceMs: 5_000,
  childrenPerAgentMax: 64,
  childAgentsMax: 200,
  /** A prompt as one argument: the system takes 128 KiB. */
  childPromptBytesMax: 120 * 1024,
  /** One message of an ACP agent that takes tasks, and everything that one process of it prints: an update can hold a whole file twice. */
  acpMessageBytesMax: 8 * 1024 * 1024,
  acpOutputBytesMax: 512 * 1024 * 1024,
  /** Prompts for one run: each refusal, expiry and amendment is one. An agent that asks for the same thing forever ends here. */
  acpPromptsMax: 50,
  /** Tool calls of one prompt that are known by their id, and permissions that wait behind one another. The oldest call is forgotten. */
  acpCallsMax: 1_000,
  acpQuestionsMax: 50,
  /** A file that an ACP agent reads through its client: it fits into one message. */
  acpFileBytesMax: 4 * 1024 * 1024,
  /** The patch of a run; of a larger one only the list of files is delivered. */
  patchBytesMax: 8 * 1024 * 1024,
  memosPerRunMax: 500,
  memoBytesMax: 16 * 1024,
  /** How long the notes of a run are kept after its end; those of an open task are looked at again after this time. */
  memoMs: 24 * 3_600_000,

  /** Rules of one policy for calls of tools: all of them are tried for every call. */
  gateRulesMax: 200,
  gateConditionsMax: 20,
  /** Names, values or pointers in one place of a rule. */
  gatePatternsMax: 50,
  gatePatternCharsMax: 300,
  /** Arguments of a tool in the question itself; longer ones are a sealed file that the card shows. */
  gateShownBytesMax: 12 * 1024,
  /** A whole call of a tool: larger arguments are denied. */
  gateArgumentsBytesMax: 256 * 1024,
  /** Calls that one rehearsal of a policy reads: some seconds of work. */
  rehearsedCallsMax: 5_000,
  /** Calls that people answered alike before a rule is suggested: with 20, at most 14 % of further calls would be answered differently. */
  suggestedCallsMin: 20,
  suggestionsMax: 10,
  /** The body of a proposed call: its arguments, the definition of the tool, and room for the rest. */
  gateProposalBytesMax: (256 + 64 + 32) * 1024,
  /** One definition of a tool, with its schemas. */
  toolDefinitionBytesMax: 64 * 1024,
  /** Tools that one server of a gate reports at a time. */
  toolsPerReportMax: 500,
  /** A capability answers while its caller waits. */
  invokeMsDefault: 30_000,
  invokeMsMax: 5 * 60_000,
  invokeOutputBytesMax: 256 * 1024,
  /** Invocations under way: each holds its input, its caller's connection and a seat at its source. */
  invocationsPerAgentMax: 16,
  invocationsMax: 256,
  /** Every invocation leaves two facts. */
  invocationsPerRunMax: 10_000,
  capabilitiesPerSourceMax: 10_000,
  /** A whole capability, with its schemas and its prompt: every search for a capability reads it. */
  capabilityBytesMax: 64 * 1024,
  permissionsMax: 20,
  resourcesMax: 50,

  /** A token of an issuer. Tokens with many groups are long; a longer one does not fit into the headers. */
  tokenCharsMax: 8 * 1024,
  /** Clocks of two machines differ, but not by more. */
  tokenSkewMs: 30_000,
  /** Tokens that need not be verified again with every call. */
  tokensKnownMax: 1_000,
  issuerCharsMax: 500,
  /** The maximum length of a subject identifier in OpenID Connect. */
  subCharsMax: 255,
  subjectsPerUserMax: 20,
  /** One request to an issuer: its timeout, and how much of the response is read. */
  issuerMsMax: 5_000,
  issuerBytesMax: 256 * 1024,
  /** The issuer's keys are fetched again after this time; while it is unreachable, cached keys remain valid for longer. */
  issuerFreshMs: 10 * 60_000,
  issuerStaleMs: 3_600_000,
  /** The shortest time between two requests to the issuer, whatever tokens arrive. */
  issuerRetryMs: 10_000,
  /** Groups in an identity token: the largest directories send 200 to 300 groups of one person; beyond that they send none. */
  groupsClaimedMax: 500,
  groupClaimCharsMax: 200,
  /** Groups of projects that one group of an issuer puts its people into, and groups that one person is in by their sign-ins. */
  placesPerClaimMax: 50,
  groupsPerPersonMax: 100,
  /** Groups of issuers that are linked to one group of a project. */
  linksPerGroupMax: 20,
  /** People whose groups follow a link in one batch. */
  groupSpreadMax: 50,
  /** A sign-in at an issuer, from the button to the way back: as long as typing a password and a second factor takes. */
  oidcFlowMs: 10 * 60_000,
  /** Codes that are being exchanged, and returns from the issuer that one network address makes in a quarter of an hour: an office shares one address. */
  oidcExchangesMax: 20,
  oidcReturnsPerAddressMax: 300,
  /** Sessions that one notice of an issuer ends in one batch. */
  sessionsEndedMax: 100,

  /** Steps of a configuration that are one commit, with every member of a large project, and their bytes. */
  configStepsMax: 2_500,
  configBodyBytesMax: 2 * 1024 * 1024,
  /** Things that one file has set in one part: a list of ids, read whole with each application. */
  configOwnedMax: 5_000,
  /** How one of them is called: the longest has an issuer, a claim and a group in it. */
  configItemCharsMax: 1_000,
  /** A configuration: its files, the bytes of one, and its values with aliases written out, so that a short file stays a short one. */
  configFilesMax: 1_000,
  configFileBytesMax: 4 * 1024 * 1024,
  configValuesMax: 200_000,
  /** Problems of a file that are shown in one go. */
  configProblemsMax: 20,

  projectsPerSubjectMax: 500,
  /** Projects that one list covers: each costs one range scan for every state. */
  projectsPerListMax: 100,
  keysPerSubjectMax: 50,
  /** Keys whose last use a server remembers: about 100 bytes each, in memory and in a file. The least recently used is forgotten. */
  keysSeenMax: 10_000,
  substitutionsMax: 50,
  /** People who are considered and asked in place of a person who cannot answer. */
  peopleSoughtMax: 100,

  /** How long a secret waits for the agent that asked for it. */
  secretMs: 15 * 60_000,
  /** Questions and replies about one request: beyond this people talk elsewhere. */
  remarksMax: 20,
  metadataBytesMax: 4 * 1024,
  /** The longest snooze; a critical item returns within the hour. */
  snoozeMsMax: 366 * 24 * 3_600_000,
  snoozeCriticalMsMax: 3_600_000,
  filtersMax: 50,
  /** Answers in one call: one page that a person has reviewed. */
  answersMax: 100,
  /** Ten years. */
  timeoutSecondsMax: 10 * 365.25 * 24 * 3_600,
  /** Read whole when an agent asks for a delegate. */
  rulesPerPersonMax: 200,
  policyEntriesMax: 20,
  /** A secret of the greatest length, with its salt, encrypted and in base64url. */
  sealedCharsMax: 200_000,
  /** Messages to one person in an hour; further ones are combined into one later. Critical messages are always sent. */
  noticesPerHourMax: 60,
  /** Notices within this time are sent as one mail. */
  mailBurstMs: 5_000,
  /** Notices within this time are sent as one push. Shorter than for mail, because a person waits for a push. */
  pushBurstMs: 1_000,
  /** Items that one message names; the others are counted. */
  digestItemsMax: 20,
  /** Mails an hour that one person can trigger to unconfirmed addresses. */
  confirmationsPerHourMax: 5,
  /** A notice carries only the title of an agent's text, cut to this length. */
  noticeTitleCharsMax: 120,
  trendDaysMax: 90,
  /** Each is tried for every question of an agent. */
  floorsMax: 50,
  /** Rules for approvals in one policy: one for each risk. */
  approvalsMax: 5,
  groupsPerProjectMax: 100,
  groupMembersMax: 50,
  /** People whose inboxes list one request: each is a row of the index. */
  peoplePerRequestMax: 50,
  /** How long a request claimed from a pool stays with the person: a quarter of an hour by default, and at most a day. */
  claimSecondsDefault: 15 * 60,
  claimSecondsMax: 24 * 3_600,
  remindersMax: 100,

  /** Ten years: far beyond any real deadline, far below where dates stop being exact. */
  durationMsMax: 10 * 366 * 24 * 3_600_000,
  /** Idempotency keys answer at least this long. */
  replyMs: 8 * 24 * 3_600_000,
  sessionIdleMs: 30 * 60_000,
  sessionMs: 12 * 3_600_000,
  /** The shortest and the longest session that an operator can set. */
  sessionMsMin: 60_000,
  sessionMsMax: 31 * 24 * 3_600_000,
  loginMs: 15 * 60_000,
  /** A session on a device that its person had remembered. */
  rememberedMs: 30 * 24 * 3_600_000,
  /** Links that one person is mailed, and that one network address asks for, in the life of a link. */
  linksPerPersonMax: 3,
  linksPerAddressMax: 10,
  /** Channels that are looked through for an address: far more than any installation has people. */
  channelsSearchedMax: 50_000,
  /** The greatest age of a sign-in on a remembered device that counts as a fresh proof. */
  proofMs: 15 * 60_000,
  /** A ticket goes from one answer into the next request: half a minute is plenty, and a stolen ticket is worth little. */
  ticketMs: 30_000,
  ticketsOpenMax: 50,
  /** A challenge waits for a person who finds their device and touches it. Enough for a batch of answers. */
  challengeMs: 5 * 60_000,
  challengesOpenMax: 100,
  /** The passkeys of one person, including removed ones. */
  passkeysPerPersonMax: 20,
  /** A new passkey that no other one signed, and a reset, count after a day, so that the person learns of it first. */
  passkeyDelayMs: 24 * 3_600_000,
  /** Each part of an assertion in base64url: a credential id has at most 1,023 bytes, client data a few hundred. */
  assertionCharsMax: 4 * 1024,
  /** An attestation with certificates has a few kB. */
  attestationCharsMax: 32 * 1024,

  /** How often a decision that lost a race is retried before the caller is refused. */
  attemptsMax: 8,
  /** With several servers on one store, some calls need more attempts: they retry for this long, with pauses up to this length. */
  attemptsMs: 4_000,
  attemptPauseMsMax: 250,
  /** Contracts are one-to-one; a worker does any fan-out. Cancelling a tree is the widest batch. */
  consequencesMax: 256,
  /** Waiting commits beyond this are refused as busy: a queue that only grows serves no caller. */
  queueMax: 2_000,
  groupMax: 512,
  cacheBytesMax: 8 * 1024 * 1024,
  /** The cache for new documents that were not read yet; above this they are read from the disk like all others. */
  newDocumentBytesMax: 2 * 1024 * 1024,
  /** Texts of new documents outside of the heap: enough for about 10,000 questions, so that answers seldom read the disk. */
  newTextBytesMax: 16 * 1024 * 1024,
  /** Keys under which nothing was found, remembered by name. */
  absentKeysMax: 10_000,
  cachedCountsMax: 100_000,
  /** Positions of facts with a verified seal: loading a document again needs no second check. */
  sealedPositionsMax: 20_000,
  /** The name of a log or a witness: an address without its scheme. */
  logNameCharsMax: 253,
  /** How often the log signs: each signature is a file on disk, and a fact is not shown to be kept before the next one. */
  logEveryMsMin: 100,
  logEveryMsMax: 3_600_000,
  /** A verifier key: the name, eight characters of hex, and 44 of base64. */
  logKeyCharsMax: 320,
  /** A checkpoint: three lines and its signatures, of which the largest known kind has 3,300 characters. */
  logNoteCharsMax: 64 * 1024,
  /** Signature lines of a note: the log, its earlier key, and twice the witnesses that a policy usually names. */
  logSignaturesMax: 64,
  /** A policy file: a hundred lines with keys and addresses. */
  logPolicyCharsMax: 64 * 1024,
  /** Logs, witnesses or groups of a policy: C2SP asks for 32. */
  logPolicyEntriesMax: 64,
  /** Facts about one thing in a bundle, whose places are in memory: a project is exported in pages instead. */
  bundleFactsMax: 20_000,
  /** A line of a bundle: the largest fact has some images of a megabyte. */
  bundleLineBytesMax: 32 * 1024 * 1024,
  /** Full tiles that were checked and are in memory: 4 MiB, those of a proof at any size and of recent facts. */
  logTilesCachedMax: 512,
  /** Recent checkpoints in memory, for exports that are read in pages: a quarter of an hour at one a second. */
  logHeadsKeptMax: 1_000,
  /** Hashes of a consistency proof: C2SP allows one for each level of a tree of 2^63 entries. */
  logProofHashesMax: 63,
  /** The cached visual forms of frequent labels. */
  labelMarksBytesMax: 256 * 1024,
  /** Denials by one actor that are written into the record in a minute; the rest are only counted. */
  denialsPerMinute: 60,
  /** Commands of one agent, done or refused. Ten a second are more than any task needs; only a runaway loop needs more. */
  changesPerMinute: 600,
  /** Reads of one actor in a minute, in units: a thousand small answers a second, or some two hundred of the longest pages. */
  readsPerMinute: 60_000,
  /** A call costs one more unit for this many documents or events that it reads, and for this many characters of them. */
  readUnitRows: 10,
  readUnitChars: 4 * 1024,
  /**
   * A download costs one more unit for this many bytes, which are only hashed and passed on: a gigabyte costs a quarter of a minute's
   * quota.
   */
  readUnitBytes: 64 * 1024,
  /** Concurrent reads of one actor, and the units that one actor and all together can use before others have their turn. */
  readsUnderWayMax: 4,
  readUnitsPerTurn: 150,
  readUnitsPerTurnOfAll: 300,
  /** And the time: a unit over HTTP costs twenty times one over JSON-RPC, and others wait for three or four turns in each of their calls. */
  readMsPerTurn: 2,
  /** Questions of one agent to people: their attention is the scarcest resource. */
  asksPerMinute: 600,
  asksOpenMax: 1_000,
  /** Critical questions of one agent in an hour: not everything can be critical. */
  criticalPerHourMax: 20,
  /** Due calls that run about one document before it is shown: each call sets its next time. */
  settledMax: 5,
  /** Errands that a call does before its answer: no caller should wait for hundreds of runs to end. The worker does the rest. */
  errandsAtOnceMax: 50,
  /** A person must be able to answer before the default does: an agent that leaves them a second decides for itself. */
  defaultSecondsMin: 60,

  /** One message between harnesses: the same as one body. */
  harnessMessageBytesMax: 256 * 1024,
  /** Rules, resources and procedures of one capability, and capabilities of one agent: read whole with every submission. */
  harnessRulesMax: 50,
  /** Every session's image holds the declared schema. */
  harnessSchemaBytesMax: 32 * 1024,
  /** Three days, if neither the task nor the declaration bounds the duration. */
  harnessDurationMsDefault: 72 * 3_600_000,
  /** How long data beside the record of an ended session is kept, and a message is retried: at least the promised week. */
  harnessKeptMs: 8 * 24 * 3_600_000,
  harnessUnsentMs: 7 * 24 * 3_600_000,
  /** How long the address of an artifact serves without the session's token (C38). */
  harnessTicketMs: 7 * 24 * 3_600_000,
  /** Events of one session that wait for an earlier one: above this, events are taken as they arrive. */
  harnessHeldMax: 200,
  harnessHeldBytesMax: 1024 * 1024,
  /** Warnings and risk events in the summary of a session, messages known by id, and numbers of events that never came. */
  harnessNotesMax: 100,
  harnessSnapshotsMax: 200,
  harnessSnapshotBytesMax: 128 * 1024,
  harnessArtifactsMax: 50,
  /** Attempts to process a message before it is moved to the dead letters. */
  harnessTriesMax: 5,
  /** Messages that arrive before the answer that names their session, and sessions of one sender that have such messages. */
  harnessEarlyMax: 100,
  harnessEarlySessionsMax: 50,
  /** Answers a minute to one broker user without rights here, and how long such an answer is retried. */
  harnessStrangersPerMinute: 60,
  harnessStrangerMs: 60_000,
  /** Log lines a minute about the messages of one broker user; the rest are counted. */
  harnessLinesPerMinute: 20,
  /** A token: some claims in base64. */
  sessionTokenCharsMax: 4 * 1024,

  /** A signed receipt: its result comes from a body, and is written in base64. */
  receiptCharsMax: 512 * 1024,
  /** Keys that receipts were signed with: all of them stay published. */
  signingKeysMax: 500,
  /** A name that an agent gives to a key. */
  keyNameCharsMax: 100,

  /** One line to the hardware daemon: a file of half a megabyte in base64 fits into it (D12). */
  deviceLineBytesMax: 1024 * 1024,
  deviceConnectionsMax: 256,
  /** Steps of one hardware task. */
  stepsMax: 100,
  taskMsMax: 24 * 3_600_000,
  /** Bytes of one transaction on a bus or a serial port. */
  transferBytesMax: 4_096,
  /** Bytes of a file that go through one call, and the longest path. */
  fileBytesMax: 700_000,
  pathCharsMax: 4_096,
  entriesPerFolderMax: 1_000,
  /** The longest wait of a tool for an edge or for bytes. */
  deviceWaitMsMax: 60_000,
  /** The result of a tool, as JSON: the answer that holds it has to be read by a strict decoder. */
  deviceResultCharsMax: 1024 * 1024,
  deviceResultDepthMax: 24,
  /** Denials of one session and code that get their own line in a minute; one line counts the rest (W41). */
  deviceDenialsPerMinute: 60,
  /** Lines of the audit between two signed checkpoints at most, and bytes of the file before it is rotated. */
  auditCheckpointLines: 1_000,
  auditFileBytesMax: 64 * 1024 * 1024,
  /** Lines in one report of a device, and the longest line. */
  deviceLinesMax: 100,
  deviceLineCharsMax: 16 * 1024,
  devicesPerAgentMax: 100,
  /** An approval of a hardware task is valid for at most a week. */
  approvalSecondsMax: 7 * 24 * 3_600,
} as const
