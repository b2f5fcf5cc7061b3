package protocol

import "osaurus-sandbox/engine"

// The limits of files.
const (
	// MaxFileConns bounds the concurrent file calls of a room. Each uses a connection.
	MaxFileConns = 16
	// MaxFileMessage bounds a message to a worker, which can hold a file's content.
	MaxFileMessage = engine.MaxFileWrite + 64<<10
	// FileChunk is the most bytes read at once. It balances the cost of each call against the
	// worker's memory.
	FileChunk = 256 << 10
	// MaxTargets bounds the bytes of link targets in a folder list. Further links are listed without a target.
	MaxTargets = 400 << 10
)
