package tools

import (
	"context"
	"time"

	"osaurus-sandbox/internal/fault"
)

// Mounts lets agents ask for folders of the person's computer, and for a review of what they changed there.
type Mounts interface {
	// Request asks a person to mount a folder. It fails with UserDenied or Timeout, and with Rejected for a
	// folder that is never mounted.
	Request(ctx context.Context, a Agent, r FolderRequest) (MountedFolder, error)
	// Submit says that the changes in a mount are done. It fails with UserDenied if a person is asked and says no.
	Submit(ctx context.Context, a Agent, mount, summary string) (Submitted, error)
}

// FolderRequest is a folder that an agent asks for.
type FolderRequest struct {
	Path, Why, Mode string
	For             time.Duration // 0: without end
}

// MountedFolder is a folder of the person's computer in the agent's room.
type MountedFolder struct {
	Name  string    `json:"name"`
	Path  string    `json:"path"` // in the room
	Mode  string    `json:"mode"`
	Until time.Time `json:"until,omitzero"`
}

// Submitted is what became of an agent's changes.
type Submitted struct {
	Changes  int          `json:"changes"`
	Asked    bool         `json:"asked"`
	Accepted int          `json:"accepted"`
	Left     []LeftChange `json:"left,omitempty"`
}

// LeftChange is a change that is not accepted.
type LeftChange struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

type requestFolderIn struct {
	Path  string `json:"path" jsonschema:"an absolute path on the person's computer" limit:"minlen=1"`
	Why   string `json:"why" jsonschema:"what you need it for, for the person" limit:"minlen=1"`
	Mode  string `json:"mode,omitempty" jsonschema:"review: you change a copy, and the person accepts" limit:"enum=review|read|write"`
	Hours int    `json:"hours,omitempty" jsonschema:"for how long; without it until the sandbox ends" limit:"min=1,max=168"`
}

// newRequestFolder makes sandbox_request_folder.
func newRequestFolder(mounts Mounts) Tool {
	return Define(Spec{
		Name: "sandbox_request_folder", Title: "Ask for a folder of the person's computer", Gate: Exec, Budget: AskTime,
		NoCheckpoint: true, // it waits for a person, and an undo would wait for it
		Hints:        Hints{OpenWorld: true},
		Description:  `Ask the person to mount a folder of their computer in your room, at /mnt. They may refuse. In mode review (the default), call sandbox_submit_review when your changes are done.`,
	}, func(ctx context.Context, c *Call, in requestFolderIn) (MountedFolder, error) {
		c.Say("waiting for a person to allow %s", in.Path)
		m, err := mounts.Request(ctx, c.Agent, FolderRequest{in.Path, in.Why, in.Mode, time.Duration(in.Hours) * time.Hour})
		return m, explainRefusal(err, "a person was asked for the folder and did not give it. Do without it, or say what it is needed for and ask whether to try again")
	})
}

type submitReviewIn struct {
	Mount   string `json:"mount" jsonschema:"the name of the mount: app" limit:"minlen=1"`
	Summary string `json:"summary" jsonschema:"what you changed and why, for the person" limit:"minlen=1"`
}

// newSubmitReview makes sandbox_submit_review.
func newSubmitReview(mounts Mounts) Tool {
	return Define(Spec{
		Name: "sandbox_submit_review", Title: "Submit changes for review", Gate: Exec, Budget: AskTime,
		NoCheckpoint: true, // it waits for a person, and an undo would wait for it
		Hints:        Hints{Destructive: true, OpenWorld: true},
		Description:  `Say that your changes in a mounted folder are done. The person may be asked to accept them; otherwise they review them later.`,
	}, func(ctx context.Context, c *Call, in submitReviewIn) (Submitted, error) {
		c.Say("waiting for a person to review %s", in.Mount)
		s, err := mounts.Submit(ctx, c.Agent, in.Mount, in.Summary)
		return s, explainRefusal(err, "the person did not accept your changes. They are still in the mount: ask what to do differently")
	})
}

// explainRefusal replaces the error of a person who said no.
func explainRefusal(err error, message string) error {
	if fault.KindOf(err) == fault.UserDenied {
		return &Failure{Kind: fault.UserDenied, Message: message, Cause: err}
	}
	return err
}
