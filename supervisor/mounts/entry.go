package mounts

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/fs"
)

// Guest is what mounts ask of a guest: see guest.Client.
type Guest interface {
	Mount(ctx context.Context, user config.LinuxUser, m guest.RoomMount, serve func(context.Context, io.ReadWriteCloser) error) (Attached, error)
	MountChanges(ctx context.Context, user config.LinuxUser, name config.MountName) iter.Seq2[guest.MountChange, error]
	ReadMountChange(ctx context.Context, user config.LinuxUser, name config.MountName, path string) (io.ReadCloser, error)
	ForgetMount(ctx context.Context, user config.LinuxUser, name config.MountName) error
}

// Attached is a mount in a guest: see guest.Mounted.
type Attached interface {
	Done() <-chan struct{}
	Unmount(ctx context.Context, force bool) error
	Close()
}

// realGuest is a Guest that is a virtual machine's.
type realGuest struct{ *guest.Client }

func (g realGuest) Mount(ctx context.Context, user config.LinuxUser, m guest.RoomMount, serve func(context.Context, io.ReadWriteCloser) error) (Attached, error) {
	mounted, err := g.Client.Mount(ctx, user, m, serve)
	if err != nil {
		return nil, err
	}
	return mounted, nil
}

func guestOf(g machine.Guest) (Guest, bool) {
	real, ok := g.(*boot.Guest)
	if !ok {
		return nil, false
	}
	return realGuest{real.Client}, true
}

// entry is a mount and what serves it.
type entry struct {
	Mount
	of *Mounts

	work    sync.Mutex // held to mount and to unmount, which asks the guest
	opening sync.Mutex // held to open the folder, which may take long

	in     machine.Guest // where it is mounted; guarded by work
	looked time.Time     // when the last look at its changes began; guarded by the turn

	mu     sync.Mutex // held for moments only
	root   *os.Root   // opened when it is first needed
	live   Attached   // or nil
	server *fs.Server
	ending bool // it is being unmounted, or was
	ended  bool
	failed error // of the last attempt to mount it
}

func (e *entry) reviewed() bool { return e.Mode == guest.MountReview }

// open returns the folder, which close closes.
func (e *entry) open() (*os.Root, error) {
	e.opening.Lock()
	defer e.opening.Unlock()
	e.mu.Lock()
	root := e.root
	e.mu.Unlock()
	if root != nil {
		return root, nil
	}
	root, folder, err := e.of.Rules.Open(e.Folder, e.All)
	if err != nil {
		return nil, err
	}
	if folder != e.Folder {
		_ = root.Close()
		return nil, fault.Newf(fault.Rejected, opMount, e.Folder, "it leads to %s now", folder).Advise("Unmount it, and mount the folder that you mean.")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		_ = root.Close()
		return nil, fault.Newf(fault.NotFound, opMount, e.Folder, "the mount has ended")
	}
	e.root = root
	return root, nil
}

// attach mounts the folder in an agent's room, unless that is done, or it is being unmounted.
func (e *entry) attach(ctx context.Context, lease *machine.Lease, agent agents.Agent) error {
	e.work.Lock()
	defer e.work.Unlock()
	e.mu.Lock()
	ending := e.ending
	e.mu.Unlock()
	if ending || e.in == lease.Guest && e.attached() {
		return nil
	}
	e.release()
	live, server, err := e.mount(ctx, lease, agent)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.in, e.live, e.server, e.failed = lease.Guest, live, server, err
	return err
}

func (e *entry) mount(ctx context.Context, lease *machine.Lease, agent agents.Agent) (Attached, *fs.Server, error) {
	g, ok := e.of.Guest(lease.Guest)
	if !ok {
		return nil, nil, fault.Newf(fault.Unavailable, opMount, e.Folder, "this kind of guest has no mounts")
	}
	root, err := e.open()
	if err != nil {
		return nil, nil, err
	}
	share := vm.Share{Tag: string(e.Name), Path: e.Folder, ReadOnly: e.Mode != guest.MountWrite, MinFree: boot.MinFree}
	server, err := fs.New(share, fs.Options{Root: root, Lower: e.reviewed(), UID: agent.UID, Log: e.of.Log})
	if err != nil {
		return nil, nil, err
	}
	live, err := g.Mount(ctx, agent.User, guest.RoomMount{Name: e.guestName(), Path: e.At, Mode: e.Mode}, server.Serve)
	if err != nil {
		_ = server.Close() // it has nothing to write
		return nil, nil, err
	}
	return live, server, nil
}

// attached reports whether the folder is mounted.
func (e *entry) attached() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live != nil && !notify.Closed(e.live.Done())
}

// lost reports whether the folder was mounted, and no longer is though nobody unmounted it.
func (e *entry) lost() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.ending && e.live != nil && notify.Closed(e.live.Done())
}

// setEnding says whether the mount is being unmounted.
func (e *entry) setEnding(is bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ending = is
}

// detach unmounts the folder, with force also while programs use it.
func (e *entry) detach(ctx context.Context, force bool) error {
	e.work.Lock()
	defer e.work.Unlock()
	e.setEnding(true)
	if e.live != nil { // it changes only with work
		if err := e.live.Unmount(ctx, force); err != nil && !force {
			e.setEnding(false)
			return err
		}
	}
	e.release()
	return nil
}

// release ends what serves the mount. The caller has work.
func (e *entry) release() {
	e.mu.Lock()
	live, server := e.live, e.server
	e.in, e.live, e.server = nil, nil, nil
	e.mu.Unlock()
	if live != nil {
		live.Close()
		_ = server.Close()
	}
}

// close ends the mount for good.
func (e *entry) close() {
	e.work.Lock()
	defer e.work.Unlock()
	e.release()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended = true; e.root != nil {
		_ = e.root.Close()
	}
}

// now returns the mount with its state.
func (e *entry) now() Mount {
	attached := e.attached()
	e.mu.Lock()
	n, root, failed := e.Mount, e.root, e.failed
	e.mu.Unlock() // looking at the folder may take long
	var gone string
	switch there, ok := identityOf(e.Folder); {
	case !ok:
		gone = "the folder is not there any more"
	case root != nil && !is(root, there):
		gone = "another folder has taken its place"
	case attached:
		n.State = Mounted
	case failed != nil:
		n.State, n.Trouble = Failed, failed
	default:
		n.State = Waiting
	}
	if gone != "" {
		n.State = Gone
		n.Trouble = fault.New(fault.NotFound, opMount, e.Folder, errors.New(gone)).Advise("Bring it back, or unmount it: osaurus-sandbox unmount AGENT " + string(e.Name))
	}
	return n
}

// is reports whether an opened folder is the one with this identity.
func is(root *os.Root, other identity) bool {
	list, err := ancestors(root)
	return err == nil && list[0] == other
}

// resolved returns a path without links, or the path if it leads nowhere.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
