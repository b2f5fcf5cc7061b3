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

// spool is the folder of one shell: what the guest and the shell tell each other
// lies on it. It belongs to root in a file system of the room's own, and the
// agent can only read it. Still nothing is opened or removed by a path of more than one
// name: the root of the room could have put a link there.
type spool struct {
	in     *os.File // the folder that the spool is in
	name   string
	dir    *os.File
	inside string // the spool's path in the room
	said   *os.File
	sweep  sync.WaitGroup // those who clear
}

// openSpool makes a spool with a shell's files in a folder; inside is the folder's
// path in the room. The spool takes the folder over.
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

// callFiles are what is in the folder of a call.
var callFiles = []string{"text", "in", "out", "err"}

// order puts a call on the spool: the next one that the shell runs. Status is what
// $? shall be at its beginning.
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

// withdraw takes the next call away, so that it cannot begin any more.
func (d *spool) withdraw() { _ = unix.Unlinkat(d.fd(d.dir), "next", 0) }

// clear removes what belongs to a call. Streams that are open stay, and so does a
// call that is no more the next: the shell runs none twice.
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

// remove removes the spool, once no shell uses it. What somebody else has put on it
// stays until the room ends.
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

// openFolder opens a folder by its single name, and no link.
func openFolder(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// fileAt makes a file that everybody can read.
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

// fifoAt makes a FIFO that everybody can write to, and opens it: whoever opens
// it for writing never waits.
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
		return nil, fmt.Errorf("%s is no FIFO any more", name)
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

// random is 64 bits, which nobody guesses while a call runs.
func random() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
