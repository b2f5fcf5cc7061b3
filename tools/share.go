package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

const (
	// shareTime is long enough to copy the largest artifact out of a busy guest.
	shareTime = 5 * time.Minute
	// maxShared bounds the names in a shared folder: enough for a report with pictures. Larger
	// folders must be archived first.
	maxShared = 1_000
	// maxLeftOut is how many skipped names a warning lists.
	maxLeftOut = 5
)

type shareIn struct {
	Path        string `json:"path,omitempty" jsonschema:"a file or a small folder; relative to your home folder"`
	Content     string `json:"content,omitempty" jsonschema:"instead of path: the text itself"`
	Filename    string `json:"filename,omitempty" jsonschema:"its name; required with content"`
	Description string `json:"description,omitempty" jsonschema:"what it is, for the person: one line"`
}

// newShare makes share_artifact.
func newShare(rooms Rooms, artifacts Artifacts) Tool {
	return inRoom(rooms, Spec{
		Name: "share_artifact", Title: "Hand a file over to the person", Gate: Exec, NoCheckpoint: true, Budget: shareTime + bootTime,
		Description: `Hand a result over to the person: a copy of a file or a small folder of yours (path), or a text (content and filename). It is kept on their computer, ` +
			`as it is now: share it again when you have changed it.`,
	}, func(ctx context.Context, c *Call, in shareIn) (Artifact, error) {
		if (in.Path == "") == (in.Content == "") {
			return Artifact{}, wrongArgument("path", "a path, or content and filename", "say what to share: either path or content")
		}
		if in.Content != "" && in.Filename == "" {
			return Artifact{}, wrongArgument("filename", "a name such as report.md", "content needs a filename")
		}
		field, name := "filename", in.Filename
		var p Path
		if in.Path != "" {
			var err error
			if p, err = c.path(in.Path); err != nil {
				return Artifact{}, err
			}
			if name == "" {
				field, name = "path", path.Base(p.String())
			}
		}
		draft, err := artifacts.Draft(ctx, c.Agent, c.Session, name)
		if err != nil {
			return Artifact{}, aboutName(field, err)
		}
		defer draft.Discard() // also after a panic
		s := sharing{Call: c}
		if in.Path == "" {
			err = s.text(draft, in.Content)
		} else {
			err = s.from(ctx, p, draft)
		}
		if err != nil {
			return Artifact{}, errors.Join(err, draft.Discard())
		}
		s.warn()
		return draft.Keep(ctx, in.Description)
	})
}

// aboutName marks the artifact's name as the argument at fault.
func aboutName(field string, err error) error {
	if fault.KindOf(err) != fault.InvalidArgs {
		return err
	}
	f := *failureOf(err)
	f.Field, f.Expected = field, "a plain name such as report.md; set filename if the file's own name does not work"
	return &f
}

// sharing is the state of one call.
type sharing struct {
	*Call
	names   int      // so far
	copied  int      // files copied
	leftOut []string // names of skipped links, devices and the like
}

// text shares a text.
func (s *sharing) text(to Draft, content string) error {
	f, err := to.File("", uint64(len(content)))
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, content)
	return cmp.Or(err, f.Close())
}

// from shares the file or folder at a path.
func (s *sharing) from(ctx context.Context, p Path, to Draft) error {
	info, err := s.room.StatFile(ctx, p.file())
	if err != nil {
		return s.missing(ctx, p, err)
	}
	s.Say("copying %s", p)
	if info.Kind != engine.Folder {
		return s.file(ctx, p, to, "", info.Size)
	}
	err = s.folder(ctx, p, to, "")
	if err == nil && s.copied == 0 {
		return wrongArgument("path", "a file, or a folder with files in it", "there is no file in %s", quoted(p.String()))
	}
	return err
}

// file copies a file into the artifact. The guest refuses links that lead out of the root.
func (s *sharing) file(ctx context.Context, p Path, to Draft, at string, size uint64) (err error) {
	f, err := to.File(at, size)
	if err != nil {
		return aboutName("path", err)
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	s.copied++
	_, err = s.room.ReadFile(ctx, p.file(), engine.FilePart{}, f)
	return aboutPath(err)
}

// folder copies the contents of a folder into the artifact. It follows no links.
func (s *sharing) folder(ctx context.Context, p Path, to Draft, at string) error {
	list, more, err := s.room.ListFolder(ctx, p.file(), maxShared)
	if err != nil {
		return aboutPath(err)
	}
	if s.names += len(list); more || s.names > maxShared {
		return &Failure{Kind: fault.Rejected, Field: "path", Message: fmt.Sprintf("the folder has more than %d files and folders in it: share an archive of it", maxShared)}
	}
	for _, e := range list {
		below, err := s.below(p, e.Name)
		if err != nil {
			return err
		}
		switch there := path.Join(at, e.Name); e.Kind {
		case engine.Folder:
			err = s.folder(ctx, below, to, there)
		case engine.RegularFile:
			err = s.file(ctx, below, to, there, e.Size)
		default:
			s.leftOut = append(s.leftOut, there)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below joins a folder and a name that came from the guest and may be invalid.
func (s *sharing) below(p Path, name string) (Path, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return Path{}, fault.Newf(fault.Rejected, "copy", p.String(), "the guest returned the invalid name %q", name)
	}
	return Path{p.Root, path.Join(p.Rel, name)}, nil
}

// warn lists what was not copied.
func (s *sharing) warn() {
	if n := len(s.leftOut); n > 0 {
		s.Warn("skipped %d links and special files: %q", n, s.leftOut[:min(n, maxLeftOut)])
	}
}
