package snapshots

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/machine"
)

const (
	// frozenLimit is how long the guest's disk is frozen: far longer than sharing its blocks takes. The
	// guest thaws it by itself then. Copying a disk would take minutes, in which no program could
	// write, so that the guest is stopped for it instead.
	frozenLimit = 10 * time.Second
	// thawLimit bounds the wait for a guest to thaw its disk.
	thawLimit = 5 * time.Second
)

// freezer is a guest that can freeze its data disk.
type freezer interface {
	// Freeze writes everything to the data disk and makes writers wait, at most for some time.
	Freeze(ctx context.Context, within time.Duration) error
	// Thaw ends it. It fails if the time was over before.
	Thaw(ctx context.Context) error
}

// Create makes a snapshot. Where the file system can share blocks, a running guest goes on: its disk is
// frozen for a moment, and files in the workspace are copied while programs may write to them. With stop,
// or where blocks cannot be shared, the guest is stopped meanwhile. After an error nothing is left.
func (s *Snapshots) Create(ctx context.Context, name string, stop bool, report progress.Func, by machine.Cause) (m Manifest, err error) {
	const op = "create snapshot"
	end, err := s.begin(op, name)
	if err != nil {
		return m, err
	}
	defer end()
	part, err := s.part(op, name)
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIn(s.Home, filepath.Base(part)))
		}
	}()
	err = s.Agents.Unchanged(ctx, op, func(saved agents.Saved) error {
		m = Manifest{Format: format, Name: name, Created: time.Now().UTC(), Program: s.Program, Base: boot.BaseOf(s.Home), Saved: saved}
		c := copying{from: inHome(s.Home), to: inFolder(part)}
		if err := c.measure(ctx, op, name); err != nil {
			return err
		}
		meter := report.Start("copy", 0, c.total)
		defer meter.Finish()
		c.count = meter.Add
		if !stop {
			if m.Live, err = s.live(ctx, &c, report); m.Live || err != nil {
				return err
			}
		}
		return s.Machine.Offline(ctx, by, c.all)
	})
	if err != nil {
		return m, failed(op, name, err)
	}
	info, err := os.Stat(inFolder(part).disk)
	if err != nil {
		return m, failed(op, name, err)
	}
	m.DiskSize, m.DiskBytes = info.Size(), clone.Allocated(info)
	if m.Workspace, err = measure(ctx, inFolder(part).workspace); err != nil {
		return m, failed(op, name, err)
	}
	if err := errors.Join(m.write(part), clone.Sync(part), os.Rename(part, folder(s.Home, name)), config.Sync(s.Home.Snapshots())); err != nil {
		return m, failed(op, name, err)
	}
	s.note(Created, name, by)
	return m, nil
}

// part checks that a snapshot can get a name and returns a new folder for its parts.
func (s *Snapshots) part(op, name string) (string, error) {
	if err := checkName(op, name); err != nil {
		return "", err
	}
	list, broken, err := s.List()
	_, missing := os.Lstat(folder(s.Home, name))
	switch {
	case err != nil:
		return "", failed(op, name, err)
	case name == Before:
		return "", fault.Newf(fault.Rejected, op, name, "the name is reserved for what a restore replaces").Advise("Choose another name.")
	case missing == nil:
		return "", fault.Newf(fault.Rejected, op, name, "there is a snapshot of that name").Advise("Choose another name, or delete that one.")
	case len(list)+len(broken) >= maxSnapshots:
		return "", fault.Newf(fault.Rejected, op, name, "there are %d snapshots", maxSnapshots).Advise("Delete one: osaurus-sandbox sandbox snapshot delete NAME.")
	}
	return s.Home.Make(folder(s.Home, unfinished+rand.Text()))
}

// failed returns the error of an operation that has another's kind and advice, if they are known.
func failed(op, name string, err error) error {
	if _, known := errors.AsType[*fault.Error](err); known {
		return fault.Wrap(op, name, err)
	}
	kind := fault.KindOf(err)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		kind = fault.Unavailable
	}
	return fault.New(kind, op, name, err).Advise("Nothing has changed. " + adviseSpace)
}

// live copies while a guest runs. It reports false if there is none, or it has to be stopped.
func (s *Snapshots) live(ctx context.Context, c *copying, report progress.Func) (done bool, err error) {
	l, ok := s.Machine.Peek()
	if !ok {
		return false, nil
	}
	defer l.Release()
	guest, can := l.Guest.(freezer)
	if !can || !c.shared {
		report.Note("the file system cannot share blocks: the guest is stopped while its disk is copied")
		return false, nil
	}
	if err = guest.Freeze(ctx, frozenLimit); err == nil {
		limited, cancel := context.WithTimeout(ctx, frozenLimit)
		err = c.disk(limited)
		cancel()
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawLimit)
		err = errors.Join(err, guest.Thaw(late))
		cancel()
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		report.Note("the guest is stopped while its disk is copied: " + err.Error())
		return false, c.undoDisk()
	}
	return true, c.folders(ctx)
}

// places are the parts of a sandbox's state.
type places struct{ disk, workspace, states string }

func inHome(home config.Home) places {
	return places{home.DataDisk(), home.Workspace(), home.AgentStates()}
}

func inFolder(dir string) places {
	return places{filepath.Join(dir, "data.ext4"), filepath.Join(dir, "workspace"), filepath.Join(dir, "agents")}
}

// copying copies the parts of a state.
type copying struct {
	from, to places
	count    clone.Count
	total    int64 // bytes to copy, if blocks are not shared
	shared   bool  // blocks are
}

// measure finds out what there is to copy, and whether it fits.
func (c *copying) measure(ctx context.Context, op, name string) error {
	info, err := os.Stat(c.from.disk)
	if err != nil {
		return fault.New(fault.Unavailable, op, name, err).Advise("The sandbox has no disk yet. Set it up: osaurus-sandbox up.")
	}
	dir := filepath.Dir(c.to.disk)
	switch err := copyFile(c.from.disk, dir, "probe", clone.Reflink); {
	case err == nil:
		c.shared = true
		return os.Remove(filepath.Join(dir, "probe"))
	case !errors.Is(err, errors.ErrUnsupported):
		return failed(op, name, err)
	}
	files, err := measure(ctx, c.from.workspace)
	if err != nil {
		return failed(op, name, err)
	}
	free, err := clone.Free(dir)
	if c.total = clone.Allocated(info) + files.Bytes; err == nil && free-c.total < boot.MinFree {
		err = fault.Newf(fault.Unavailable, op, name, "it takes %d MB, and %d MB are free", c.total>>20, free>>20).Advise("Nothing has changed. " + adviseSpace)
	}
	return err
}

// measure counts the files below a folder.
func measure(ctx context.Context, dir string) (sum clone.Sum, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return sum, err
	}
	defer root.Close()
	err = clone.Walk(ctx, root, func(n clone.Node) error {
		sum.Files++
		if n.Link == "" && n.Mode().IsRegular() {
			sum.Bytes += clone.Allocated(n)
		}
		return nil
	})
	return sum, err
}

func (c *copying) all(ctx context.Context) error {
	if err := c.disk(ctx); err != nil {
		return err
	}
	return c.folders(ctx)
}

// disk copies the data disk.
func (c *copying) disk(ctx context.Context) error {
	return copyFile(c.from.disk, filepath.Dir(c.to.disk), filepath.Base(c.to.disk), func(f *os.File, to *os.Root, name string) error {
		return clone.File(ctx, f, to, name, c.count)
	})
}

func (c *copying) undoDisk() error {
	if err := os.Remove(c.to.disk); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func copyFile(from, dir, name string, how func(*os.File, *os.Root, string) error) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return how(f, root, name)
}

// folders copies the workspace and what is known of agents' plugins.
func (c *copying) folders(ctx context.Context) error {
	if err := c.tree(ctx, c.from.workspace, c.to.workspace); err != nil {
		return err
	}
	return c.tree(ctx, c.from.states, c.to.states)
}

func (c *copying) tree(ctx context.Context, from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	source, err := os.OpenRoot(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	_, err = clone.Tree(ctx, source, target, c.count)
	return err
}
