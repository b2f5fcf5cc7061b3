package processtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hangs bounds how long a share hangs: longer than any test takes.
const hangs = 10 * time.Minute

// Share is a folder on a share that does not answer until LetGo is called, and then answers with an
// error. A process that waits for it cannot even be killed.
type Share struct {
	Dir   string
	Asked <-chan struct{} // closed on the first request
	LetGo func()
}

// HangingShare mounts a share that hangs. It skips the test if this host does not allow that.
func HangingShare(t testing.TB) Share {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no shares here: %v", err)
	}
	dir := t.TempDir()
	if err := unix.Mount("hanging", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", fd, os.Getuid(), os.Getgid())); err != nil {
		_ = unix.Close(fd)
		t.Skipf("no shares here: %v", err)
	}
	letGo := func() { _ = unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH) }
	// In case the test stops early: a process with a waiting thread cannot exit.
	late := time.AfterFunc(hangs, letGo)
	asked, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		defer unix.Close(fd)
		ended <- hang(fd, sync.OnceFunc(func() { close(asked) }))
	}()
	t.Cleanup(func() {
		letGo()
		late.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return Share{dir, asked, letGo}
}

// hang answers the kernel's first request, calls asked for later ones, and returns when the share
// is let go.
func hang(fd int, asked func()) error {
	const (
		most          = 1 << 17 // largest request
		initOpcode    = 26
		version       = 7
		minor         = 31
		headerSize    = 16
		initReplySize = 64
	)
	request := make([]byte, most)
	for {
		n, err := unix.Read(fd, request)
		switch {
		case err == unix.ENODEV:
			return nil
		case err == unix.EINTR, err == unix.ENOENT: // request was cancelled
			continue
		case err != nil:
			return err
		case n < headerSize:
			return errors.New("a request without a head")
		}
		if binary.NativeEndian.Uint32(request[4:]) != initOpcode {
			asked()
			continue
		}
		reply := make([]byte, headerSize+initReplySize)
		binary.NativeEndian.PutUint32(reply, uint32(len(reply)))
		copy(reply[8:], request[8:16]) // request id
		binary.NativeEndian.PutUint32(reply[headerSize:], version)
		binary.NativeEndian.PutUint32(reply[headerSize+4:], minor)
		if _, err := unix.Write(fd, reply); err != nil {
			return err
		}
	}
}
