//go:build linux

package fs

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
)

// newKernelMount has this computer's kernel mount a folder over a stream. It needs root.
func newKernelMount(t testing.TB, share vm.Share) (at string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	d, err := New(share, Options{UID: uint32(os.Getuid())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- d.Serve(t.Context(), theirs) }()
	mount := func(kind, at string, options ...string) int {
		f := must(unix.Fsopen(kind, unix.FSOPEN_CLOEXEC))(t)
		defer unix.Close(f)
		for _, o := range options {
			key, value, ok := strings.Cut(o, "=")
			err := unix.FsconfigSetFlag(f, key)
			if ok {
				err = unix.FsconfigSetString(f, key, value)
			}
			if err != nil {
				t.Fatal(o, err)
			}
		}
		if err := unix.FsconfigCreate(f); err != nil {
			t.Skipf("mount %s: %v", kind, err)
		}
		tree := must(unix.Fsmount(f, unix.FSMOUNT_CLOEXEC, 0))(t)
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_FORCE|unix.MNT_DETACH) })
		return tree
	}
	at = t.TempDir()
	fuse := mount("fuse", at, fmt.Sprint("fd=", device), "rootmode=40000", "user_id=0", "group_id=0", "allow_other", "default_permissions")
	unix.Close(fuse)
	go func() {
		for buf := make([]byte, maxMessage); ; {
			n, err := unix.Read(device, buf)
			if err == unix.EINTR || err == unix.ENOENT {
				continue
			}
			if err != nil {
				ours.Close()
				return
			}
			if _, err := ours.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	go func() {
		for {
			reply, err := readReply(ours)
			if err != nil {
				unix.Close(device)
				return
			}
			unix.Write(device, reply)
		}
	}()
	return at
}

// The host's changes must reach programs, and theirs the host, through a real kernel.
func TestKernel(t *testing.T) {
	dir := t.TempDir()
	c := &client{t: t, dir: dir}
	for _, name := range []string{"edited", "replaced", "removed", "sub/x"} {
		c.host(name, "old")
	}
	at := newKernelMount(t, vm.Share{Path: dir})
	// The kernel asks once whether files can be polled. It must not ask while Go's poller adds a file, which
	// the server could not go on without.
	fd := must(unix.Open(filepath.Join(at, "edited"), unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
	_ = must(unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0))(t)
	unix.Close(fd)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(at, name))
		if err != nil {
			return err.(*os.PathError).Err.Error()
		}
		return string(b)
	}
	for _, name := range []string{"edited", "replaced", "removed", "sub/x"} {
		if got := read(name); got != "old" {
			t.Errorf("%s: %s", name, got)
		}
	}
	read("made")
	c.host("edited", "new")
	c.host("new", "new")
	c.host("made", "new")
	err := errors.Join(os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "replaced")), os.Remove(filepath.Join(dir, "removed")), os.RemoveAll(filepath.Join(dir, "sub")))
	if err != nil {
		t.Fatal(err)
	}
	c.host("sub/x", "new")
	for name, want := range map[string]string{"edited": "new", "replaced": "new", "removed": "no such file or directory", "made": "new", "sub/x": "new"} {
		timetest.Eventually(t, name, func() bool { return read(name) == want })
	}
	if err := fstest.TestFS(os.DirFS(at), "edited", "sub/x"); err != nil {
		t.Error(err)
	}
	text := bytes.Repeat([]byte("0123456789"), 300_000)
	path := filepath.Join(at, "sub", "deep", "big")
	err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o751), os.Symlink("big", path+"-link"), os.Link(path, path+"-2"), os.Truncate(path, 2_999_999))
	if err = errors.Join(err, os.Rename(filepath.Dir(path), filepath.Join(at, "moved")), os.Chtimes(filepath.Join(at, "moved/big"), time.Unix(1, 0), time.Unix(1e9, 5000))); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "moved/big-2"))
	info, failed := os.Stat(filepath.Join(dir, "moved/big-link"))
	if err != nil || failed != nil || !bytes.Equal(b, text[:len(text)-1]) || info.Mode() != 0o751 || !info.ModTime().Equal(time.Unix(1e9, 5000)) {
		t.Errorf("the host has %d bytes, %v, %v %v", len(b), info, err, failed)
	}
}
