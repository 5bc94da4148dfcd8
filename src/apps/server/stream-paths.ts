// Extra paths of streams: from a path to the stream operation that it stands for.
export const streamPaths = { '/v1/events': 'collaboration/audit.follow' } as const
