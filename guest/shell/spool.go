//go:build linux

package shell

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/nofollow"
)

// spool is the folder through which the guest and one shell exchange calls and reports. It belongs
// to root in a file system of the room, and the agent can only read it. The room's root could plant
// links in it, so that all of it is accessed through an os.Root.
type spool struct {
	in     *os.Root // the folder that contains the spool
	name   string
	dir    *os.Root
	inside string // the spool's path in the room
	said   *os.File
	sweep  sync.WaitGroup // running calls of clear
}

// openSpool creates a spool with a shell's files in a folder, which the spool then owns. inside is
// the folder's path in the room.
func openSpool(in *os.Root, inside string, files func(dir string) map[string]string) (_ *spool, err error) {
	d := &spool{in: in, name: rand.Text()}
	d.inside = inside + "/" + d.name
	defer func() {
		if err != nil {
			d.remove()
			err = fmt.Errorf("make the shell's folder: %w", err)
		}
	}()
	if err := in.Mkdir(d.name, 0o755); err != nil {
		return nil, err
	}
	if d.dir, err = in.OpenRoot(d.name); err != nil {
		return nil, err
	}
	for name, text := range files(d.inside) {
		if err := d.dir.WriteFile(name, []byte(text), 0o444); err != nil {
			return nil, err
		}
	}
	if err := d.dir.Mkdir("none", 0o755); err != nil {
		return nil, err
	}
	for _, name := range []string{"text", "in", "out", "err"} {
		if err := d.dir.Symlink(os.DevNull, "none/"+name); err != nil {
			return nil, err
		}
	}
	// Open for writing too, so that it never ends.
	d.said, err = d.fifo("said", os.O_RDWR)
	return d, err
}

// order spools a call as the next one to run. status is $? at its start.
func (d *spool) order(nonce string, status int, text, stdin []byte) (out, errs *os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(out, errs)
			d.clear(nonce)
			err = fmt.Errorf("make the call's files: %w", err)
		}
	}()
	if err := d.dir.Mkdir(nonce, 0o755); err != nil {
		return nil, nil, err
	}
	if err := d.dir.WriteFile(nonce+"/text", text, 0o444); err != nil {
		return nil, nil, err
	}
	if stdin == nil {
		err = d.dir.Symlink(os.DevNull, nonce+"/in")
	} else {
		err = d.dir.WriteFile(nonce+"/in", stdin, 0o444)
	}
	if err != nil {
		return nil, nil, err
	}
	if out, err = d.fifo(nonce+"/out", os.O_RDONLY); err != nil {
		return nil, nil, err
	}
	if errs, err = d.fifo(nonce+"/err", os.O_RDONLY); err != nil {
		return out, nil, err
	}
	if err = d.dir.WriteFile(nonce+".next", []byte(nonce+" "+strconv.Itoa(status)+"\n"), 0o444); err != nil {
		return out, errs, err
	}
	return out, errs, d.dir.Rename(nonce+".next", "next")
}

// withdraw removes the next call so that it cannot begin.
func (d *spool) withdraw() { _ = d.dir.Remove("next") }

// clear removes a call's files. Open streams stay open.
func (d *spool) clear(nonce string) { _ = nofollow.Remove(d.dir, nonce) }

// remove removes the spool after its shell has ended.
func (d *spool) remove() {
	d.sweep.Wait()
	if d.dir != nil {
		_ = d.dir.Close()
	}
	_, _ = nofollow.Remove(d.in, d.name), d.in.Close()
	closeAll(d.said)
}

// fifo creates a world-writable FIFO and opens it, so that writers never block on open.
func (d *spool) fifo(name string, how int) (*os.File, error) {
	dir, err := d.dir.Open(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := unix.Mkfifoat(int(dir.Fd()), path.Base(name), 0o600); err != nil {
		return nil, err
	}
	f, err := d.dir.OpenFile(name, how|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || st.Mode().Type() != fs.ModeNamedPipe {
		_ = f.Close()
		return nil, fmt.Errorf("%s was replaced and is not a FIFO", name)
	}
	if err := f.Chmod(0o222); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
