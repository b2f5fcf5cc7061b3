package tools

import (
	"context"
	"io"

	"osaurus-sandbox/config"
)

// Artifacts stores the files that agents share with people. They are copies on the person's
// computer, which agents can no longer change.
type Artifacts interface {
	// Draft starts an artifact with this name. It fails with InvalidArgs if the name is not
	// allowed, and with Rejected if the agent has too many artifacts.
	Draft(ctx context.Context, a Agent, session config.SessionID, name string) (Draft, error)
}

// Draft is an artifact being written. It becomes visible with Keep.
type Draft interface {
	// File creates a file at a path in the artifact, with its parent folders. The path "" makes
	// the artifact itself a file. It fails with InvalidArgs for a name that is not allowed, and
	// with Rejected if size exceeds the limit. Write fails with Rejected if the content does.
	File(path string, size uint64) (io.WriteCloser, error)
	Keep(ctx context.Context, description string) (Artifact, error)
	// Discard deletes a draft that was not kept.
	Discard() error
}

// Artifact describes an artifact in a tool's result.
type Artifact struct {
	ID      int64            `json:"artifact_id"`
	Name    string           `json:"name" jsonschema:"its final name; a number is added if the conversation already had the name"`
	Session config.SessionID `json:"session" jsonschema:"the conversation that it belongs to"`
	Type    string           `json:"content_type"`
	Files   int              `json:"files"`
	Size    int64            `json:"size" jsonschema:"bytes"`
	SHA256  string           `json:"sha256" jsonschema:"for a folder, the hash of sha256sum's output for its files, sorted by path"`
}
