//go:build linux

package room

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAccounts bounds the size of /etc/passwd and /etc/group.
const maxAccounts = 1 << 20

// addUser adds the room's user and group to /etc/passwd and /etc/group of the layer. Packages add
// their own users to the same files.
func (b *builder) addUser() error {
	id := strconv.FormatUint(uint64(b.UID), 10)
	b.shell = "/bin/sh"
	for _, bash := range []string{"bin/bash", "usr/bin/bash"} {
		if fd, err := openBeneath(b.root, bash, unix.O_PATH); err == nil {
			_ = unix.Close(fd)
			b.shell = "/bin/bash"
		}
	}
	for _, file := range []struct{ name, first, line string }{
		{"etc/passwd", "root:x:0:0:root:/root:/bin/sh", strings.Join([]string{b.User, "x", id, id, "", b.Home, b.shell}, ":")},
		{"etc/group", "root:x:0:", strings.Join([]string{b.User, "x", id, ""}, ":")},
	} {
		if err := addLine(b.root, file.name, file.first, file.line); err != nil {
			return fmt.Errorf("/%s: %w", file.name, err)
		}
	}
	return nil
}

// addLine adds a line to a file below a folder and removes other lines for the same user. It replaces anything that is
// not a regular file, and fails if a regular file cannot be read.
func addLine(root int, path, first, line string) error {
	text, err := readBelow(root, path, maxAccounts)
	if err != nil && !errors.Is(err, errNoFile) {
		return err
	}
	if len(text) == 0 {
		text = []byte(first + "\n")
	}
	user, _, _ := strings.Cut(line, ":")
	var out bytes.Buffer
	for l := range bytes.Lines(text) {
		if string(bytes.TrimRight(l, "\n")) == line {
			return nil // already there
		}
		if !bytes.HasPrefix(l, []byte(user+":")) {
			out.Write(bytes.TrimRight(l, "\n"))
			out.WriteByte('\n')
		}
	}
	return replaceBelow(root, path, append(out.Bytes(), line+"\n"...))
}

// errNoFile reports that there is no regular file.
var errNoFile = errors.New("no regular file")

// readBelow reads a regular file below a folder, without following links. Programs of the room may have put anything there.
func readBelow(root int, path string, most int64) ([]byte, error) {
	fd, err := openBeneath(root, path, unix.O_RDONLY|unix.O_NONBLOCK)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
		return nil, fmt.Errorf("%w: %w", errNoFile, err)
	case err != nil:
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errNoFile, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("/%s is larger than %d bytes", path, most)
	}
	return text, err
}

// replaceBelow writes a file of root's below a folder, without following links.
func replaceBelow(root int, path string, data []byte) error {
	dir, err := folder(root, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	name := filepath.Base(path)
	fresh := "." + name + ".osaurus"
	_ = unix.Unlinkat(dir, fresh, 0)
	fd, err := unix.Openat(dir, fresh, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return &os.PathError{Op: "make", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = unix.Renameat(dir, fresh, dir, name)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, fresh, 0)
	}
	return err
}
