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

// hangs is how long a share hangs at most: longer than what is tried on it may take.
const hangs = time.Minute

// Share is a folder on a share that answers nothing until it is let go, and then with an
// error: whoever it was asked by cannot even be killed meanwhile.
type Share struct {
	Dir   string
	Asked <-chan struct{} // closed when it was asked something
	LetGo func()
}

// HangingShare makes a share. The test is skipped where this host lets nobody make one.
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
	// Also where a test does not come so far: a process of which a thread waits does not end.
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

// hang answers the kernel's first request, tells of those that come after it, and returns when
// the share is let go.
func hang(fd int, asked func()) error {
	const (
		most          = 1 << 17 // bytes of a request
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
		case err == unix.EINTR, err == unix.ENOENT: // one that was taken back
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
		copy(reply[8:], request[8:16]) // which request
		binary.NativeEndian.PutUint32(reply[headerSize:], version)
		binary.NativeEndian.PutUint32(reply[headerSize+4:], minor)
		if _, err := unix.Write(fd, reply); err != nil {
			return err
		}
	}
}
