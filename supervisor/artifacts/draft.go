package artifacts

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/tools"
)

const (
	// item is the name of the draft in its folder.
	item = "item"
	// folderType is the MIME type that desktops use for folders.
	folderType = "inode/directory"
	// sniffed is the number of bytes that http.DetectContentType looks at.
	sniffed = 512
	// maxDescription bounds descriptions, in bytes. Longer ones are cut.
	maxDescription = 1_000
)

// Draft is an artifact that is not complete yet. It is for one goroutine.
type Draft struct {
	of   *Artifacts
	end  func() // lets the agent's next draft begin
	own  string // its folder
	made Artifact
	sums []sum
	gone bool
}

// sum is a file of a draft, with its digest.
type sum struct{ path, digest string }

// Draft implements tools.Artifacts. An artifact of no session is Loose.
func (a *Artifacts) Draft(ctx context.Context, agent tools.Agent, session config.SessionID, name string) (tools.Draft, error) {
	const op = "share"
	if err := checkTop(name); err != nil {
		return nil, err
	}
	end, err := a.turns.Take(ctx, agent.ID, nil)
	if err != nil {
		return nil, fault.Newf(fault.KindOf(err), op, name, "the agent is still sharing something else: %w", err)
	}
	own := drafts + rand.Text()
	if err := a.root.Mkdir(own, privateDir); err != nil {
		end()
		return nil, a.fault(op, name, err)
	}
	return &Draft{of: a, end: end, own: own, made: Artifact{Agent: agent.ID, AgentName: agent.Name, Session: cmp.Or(session, Loose), Name: name}}, nil
}

// File creates a file of the draft and its parent folders. With an empty name the draft
// is that file. A size above MaxSize is refused at once; other sizes are not checked here.
func (d *Draft) File(name string, size uint64) (io.WriteCloser, error) {
	const op = "share"
	if size > MaxSize {
		return nil, d.tooLarge()
	}
	at := path.Join(d.own, item)
	if name != "" {
		if err := checkPath(name); err != nil {
			return nil, err
		}
		d.made.Folder = true
		at = path.Join(at, name)
		if err := d.of.root.MkdirAll(path.Dir(at), privateDir); err != nil {
			return nil, d.of.fault(op, name, err)
		}
	}
	if d.made.Files++; d.made.Files > MaxFiles {
		return nil, fault.Newf(fault.Rejected, op, d.made.Name, "it has more than %d files", MaxFiles).Advise("Share an archive of them.")
	}
	f, err := d.of.root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, privateFile)
	if errors.Is(err, fs.ErrExist) { // two names of the guest may be one on a file system that ignores case
		return nil, fault.Newf(fault.InvalidArgs, op, name, "this computer's file system treats two of its names as the same").Advise("Give one of them another name.")
	}
	if err != nil {
		return nil, d.of.fault(op, name, err)
	}
	return &file{draft: d, path: name, to: f, hash: sha256.New()}, nil
}

func (d *Draft) tooLarge() error {
	return fault.Newf(fault.Rejected, "share", d.made.Name, "it is larger than %d MiB", MaxSize>>20).Advise("Share a part of it, or a summary.")
}

// file is a file of a draft.
type file struct {
	draft *Draft
	path  string
	to    *os.File
	hash  hash.Hash
	head  []byte
}

func (f *file) Write(p []byte) (int, error) {
	d := f.draft
	if d.made.Size += int64(len(p)); d.made.Size > MaxSize {
		return 0, d.tooLarge()
	}
	f.head = append(f.head, p[:min(len(p), sniffed-len(f.head))]...)
	_, _ = f.hash.Write(p) // it cannot fail
	n, err := f.to.Write(p)
	return n, d.of.fault("share", d.made.Name, err)
}

func (f *file) Close() error {
	d := f.draft
	d.sums = append(d.sums, sum{f.path, fmt.Sprintf("%x", f.hash.Sum(nil))})
	d.made.Type = http.DetectContentType(f.head)
	return d.of.fault("share", d.made.Name, errors.Join(f.to.Sync(), f.to.Close()))
}

// Keep makes the draft an artifact. Its name gets a number if the session has one of that name.
func (d *Draft) Keep(ctx context.Context, description string) (tools.Artifact, error) {
	const op = "share"
	defer d.Discard()
	f, a := d.made, d.of
	if f.Files == 0 {
		return tools.Artifact{}, fault.Newf(fault.InvalidArgs, op, f.Name, "it contains no file").Advise("Write the file first, or share a folder that has one.")
	}
	f.Description, f.Created = oneLine(description), time.Now().UTC()
	if f.SHA256 = d.digest(); f.Folder {
		f.Type = folderType
	}
	if err := a.root.MkdirAll(string(f.Session), privateDir); err != nil {
		return tools.Artifact{}, a.fault(op, f.Name, err)
	}
	moved := false
	err := a.DB.Write(ctx, op, func(tx *sql.Tx) error {
		if err := admit(ctx, tx, f); err != nil {
			return err
		}
		var err error
		if f.Name, err = a.free(ctx, tx, f); err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `INSERT INTO artifacts (agent, agent_name, session, name, description, folder, type, files, size, sha256, created)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			f.Agent, f.AgentName, f.Session, f.Name, f.Description, f.Folder, f.Type, f.Files, f.Size, f.SHA256, f.Created.UnixNano()).Scan(&f.ID)
		if err != nil {
			return err
		}
		// A daemon that is killed before the commit leaves a file that is no artifact.
		if err = a.root.Rename(path.Join(d.own, item), f.within()); err == nil {
			moved = true
			err = a.sync(string(f.Session))
		}
		return a.fault(op, f.Name, err)
	})
	if err != nil {
		if moved {
			err = errors.Join(err, a.remove(f.within()))
		}
		return tools.Artifact{}, err
	}
	a.note(Shared, "a tool", f)
	return tools.Artifact{ID: int64(f.ID), Name: f.Name, Session: f.Session, Type: f.Type, Files: f.Files, Size: f.Size, SHA256: f.SHA256}, nil
}

// Discard removes the draft unless it was kept.
func (d *Draft) Discard() error {
	if d.gone {
		return nil
	}
	d.gone = true
	defer d.end()
	return d.of.fault("share", d.made.Name, nofollow.Remove(d.of.root, d.own))
}

// digest returns Artifact.SHA256.
func (d *Draft) digest() string {
	if !d.made.Folder {
		return d.sums[0].digest
	}
	slices.SortFunc(d.sums, func(a, b sum) int { return strings.Compare(a.path, b.path) })
	all := sha256.New()
	for _, s := range d.sums {
		fmt.Fprintf(all, "%s  %s\n", s.digest, s.path)
	}
	return fmt.Sprintf("%x", all.Sum(nil))
}

// admit refuses an artifact beyond the agent's limits.
func admit(ctx context.Context, tx *sql.Tx, f Artifact) error {
	var count, size int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(size), 0) FROM artifacts WHERE agent = ?", f.Agent).Scan(&count, &size); err != nil {
		return err
	}
	if count < Keep && size+f.Size <= KeepBytes {
		return nil
	}
	return fault.Newf(fault.Rejected, "share", f.Name, "the agent has %d artifacts of %d MiB in all; the limits are %d and %d MiB", count, size>>20, Keep, int64(KeepBytes)>>20).
		Advise("Ask the person to delete some: osaurus-sandbox artifacts delete.")
}

// free returns a name that is unused in the session's rows and in its folder, where people
// may have put files.
func (a *Artifacts) free(ctx context.Context, tx *sql.Tx, f Artifact) (string, error) {
	wanted := f.Name
	for n := 1; ; n++ {
		f.Name = numbered(wanted, n)
		var taken bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM artifacts WHERE session = ? AND name = ?)", f.Session, f.Name).Scan(&taken); err != nil {
			return "", err
		}
		if taken {
			continue
		}
		if _, err := a.root.Lstat(f.within()); errors.Is(err, fs.ErrNotExist) {
			return f.Name, nil
		} else if err != nil {
			return "", a.fault("share", f.Name, err)
		}
	}
}

// sync syncs a folder, so that its names survive a power cut.
func (a *Artifacts) sync(dir string) error {
	f, err := a.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// oneLine makes a description safe to print in a table.
func oneLine(text string) string {
	return printable.Cut(strings.Join(strings.Fields(printable.Text(text)), " "), maxDescription)
}
