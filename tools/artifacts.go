package tools

import (
	"context"
	"io"

	"osaurus-sandbox/config"
)

// Artifacts takes what agents hand over to people: copies on the person's
// computer, of which an agent changes nothing any more.
type Artifacts interface {
	// Draft begins one, which is called name. It fails with InvalidArgs if nothing may
	// be called that, and with Rejected where an agent has too many already.
	Draft(ctx context.Context, a Agent, session config.SessionID, name string) (Draft, error)
}

// Draft is an artifact that is being made. Nobody sees it before it is kept.
type Draft interface {
	// File makes a file at a path below the artifact, with the folders above it; "" is
	// the artifact itself, which then is a file. A name that nothing may have is
	// InvalidArgs. What is too much for an artifact is Rejected: at once, by the size
	// that it is said to have, and else by Write.
	File(path string, size uint64) (io.WriteCloser, error)
	Keep(ctx context.Context, description string) (Artifact, error)
	// Discard throws away what was not kept.
	Discard() error
}

// Artifact is what a tool says of one.
type Artifact struct {
	ID      int64            `json:"artifact_id"`
	Name    string           `json:"name" jsonschema:"as it is called now; with a number, if the conversation had one of the name"`
	Session config.SessionID `json:"session" jsonschema:"the conversation that it is kept with"`
	Type    string           `json:"content_type"`
	Files   int              `json:"files"`
	Size    int64            `json:"size" jsonschema:"bytes"`
	SHA256  string           `json:"sha256" jsonschema:"of a folder: of what sha256sum says of its files, sorted by their paths"`
}
