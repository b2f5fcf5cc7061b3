//go:build linux

package shell

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// spool is the folder through which the guest and one shell exchange calls and reports. It belongs
// to root in a file system of the room, and the agent can only read it. Paths in it are opened one
// name at a time, because the room's root could plant a link.
type spool struct {
	in     *os.File // the folder that contains the spool
	name   string
	dir    *os.File
	inside string // the spool's path in the room
	said   *os.File
	sweep  sync.WaitGroup // running calls of clear
}

// openSpool creates a spool with a shell's files in a folder, which the spool then owns. inside is
// the folder's path in the room.
func openSpool(in *os.File, inside string, files func(dir string) map[string]string) (_ *spool, err error) {
	d := &spool{in: in, name: random()}
	d.inside = inside + "/" + d.name
	defer func() {
		if err != nil {
			d.remove()
			err = fmt.Errorf("make the shell's folder: %w", err)
		}
	}()
	if d.dir, err = folderAt(d.fd(in), d.name); err != nil {
		return nil, err
	}
	for name, text := range files(d.inside) {
		if err := fileAt(d.fd(d.dir), name, []byte(text)); err != nil {
			return nil, err
		}
	}
	none, err := folderAt(d.fd(d.dir), "none")
	if err != nil {
		return nil, err
	}
	defer none.Close()
	for _, name := range callFiles {
		if err := unix.Symlinkat(os.DevNull, d.fd(none), name); err != nil {
			return nil, err
		}
	}
	// Open for writing too, so that it never ends.
	d.said, err = fifoAt(d.fd(d.dir), "said", unix.O_RDWR)
	return d, err
}

// callFiles are the files in a call's folder.
var callFiles = []string{"text", "in", "out", "err"}

// order spools a call as the next one to run. status is $? at its start.
func (d *spool) order(nonce string, status int, text, stdin []byte) (out, errs *os.File, err error) {
	dir, err := folderAt(d.fd(d.dir), nonce)
	if err != nil {
		return nil, nil, fmt.Errorf("make the call's folder: %w", err)
	}
	defer dir.Close()
	defer func() {
		if err != nil {
			closeAll(out, errs)
			d.clear(nonce)
			err = fmt.Errorf("make the call's files: %w", err)
		}
	}()
	at := d.fd(dir)
	if err := fileAt(at, "text", text); err != nil {
		return nil, nil, err
	}
	if stdin == nil {
		err = unix.Symlinkat(os.DevNull, at, "in")
	} else {
		err = fileAt(at, "in", stdin)
	}
	if err != nil {
		return nil, nil, err
	}
	if out, err = fifoAt(at, "out", unix.O_RDONLY); err != nil {
		return nil, nil, err
	}
	if errs, err = fifoAt(at, "err", unix.O_RDONLY); err != nil {
		return out, nil, err
	}
	if err = fileAt(d.fd(d.dir), nonce+".next", []byte(nonce+" "+strconv.Itoa(status)+"\n")); err != nil {
		return out, errs, err
	}
	return out, errs, unix.Renameat(d.fd(d.dir), nonce+".next", d.fd(d.dir), "next")
}

// withdraw removes the next call so that it cannot begin.
func (d *spool) withdraw() { _ = unix.Unlinkat(d.fd(d.dir), "next", 0) }

// clear removes a call's files. Open streams stay open.
func (d *spool) clear(nonce string) {
	// By now the root of the room may have put a link in the folder's place.
	if dir, err := openFolder(d.fd(d.dir), nonce); err == nil {
		for _, name := range callFiles {
			_ = unix.Unlinkat(d.fd(dir), name, 0)
		}
		_ = dir.Close()
	}
	_ = unix.Unlinkat(d.fd(d.dir), nonce, unix.AT_REMOVEDIR)
}

// remove removes the spool after its shell has ended. Foreign files in it stay until the room
// ends.
func (d *spool) remove() {
	d.sweep.Wait()
	if d.dir != nil {
		for _, name := range []string{"rc", "run", "end", "said", "next"} {
			_ = unix.Unlinkat(d.fd(d.dir), name, 0)
		}
		d.clear("none")
		_ = unix.Unlinkat(d.fd(d.in), d.name, unix.AT_REMOVEDIR)
	}
	closeAll(d.said, d.dir, d.in)
}

func (d *spool) fd(f *os.File) int { return int(f.Fd()) }

func folderAt(dir int, name string) (*os.File, error) {
	if err := unix.Mkdirat(dir, name, 0o755); err != nil {
		return nil, err
	}
	return openFolder(dir, name)
}

// openFolder opens a folder by name without following a link.
func openFolder(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// fileAt creates a world-readable file.
func fileAt(dir int, name string, content []byte) error {
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	_, err = f.Write(content)
	return err
}

// fifoAt creates a world-writable FIFO and opens it, so that writers never block on open.
func fifoAt(dir int, name string, how int) (*os.File, error) {
	if err := unix.Mkfifoat(dir, name, 0o600); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(dir, name, how|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("%s was replaced and is not a FIFO", name)
	}
	if err := unix.Fchmod(fd, 0o222); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// random returns 64 random bits in hexadecimal.
func random() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
