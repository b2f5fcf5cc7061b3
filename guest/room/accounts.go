//go:build linux

package room

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAccounts bounds the size of /etc/passwd and /etc/group.
const maxAccounts = 1 << 20

// addUser adds the room's user and group to /etc/passwd and /etc/group of the layer. Packages add
// their own users to the same files.
func (b *builder) addUser() error {
	etc, err := folder(b.root, "etc")
	if err != nil {
		return err
	}
	defer unix.Close(etc)
	id := strconv.FormatUint(uint64(b.UID), 10)
	b.shell = "/bin/sh"
	for _, bash := range []string{"bin/bash", "usr/bin/bash"} {
		if fd, err := openBeneath(b.root, bash, unix.O_PATH); err == nil {
			_ = unix.Close(fd)
			b.shell = "/bin/bash"
		}
	}
	for _, file := range []struct{ name, first, line string }{
		{"passwd", "root:x:0:0:root:/root:/bin/sh", strings.Join([]string{b.User, "x", id, id, "", b.Home, b.shell}, ":")},
		{"group", "root:x:0:", strings.Join([]string{b.User, "x", id, ""}, ":")},
	} {
		if err := addLine(etc, file.name, file.first, file.line); err != nil {
			return fmt.Errorf("/etc/%s: %w", file.name, err)
		}
	}
	return nil
}

// addLine adds a line to a file and removes other lines for the same user. The file is replaced,
// since it may not be a regular file.
func addLine(dir int, name, first, line string) error {
	text, err := readSmall(dir, name)
	if err != nil {
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
	out.WriteString(line + "\n")
	temporary := "." + name + ".osaurus"
	_ = unix.Unlinkat(dir, temporary, 0)
	fd, err := unix.Openat(dir, temporary, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(out.Bytes())
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return unix.Renameat(dir, temporary, dir, name)
}

// readSmall reads a regular file. It returns nothing if the file is missing or not regular. Other
// errors are returned, so that an unreadable file is not replaced as if it were empty.
func readSmall(dir int, name string) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ELOOP, unix.ENXIO:
		return nil, nil
	default:
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAccounts+1))
	if err == nil && len(text) > maxAccounts {
		err = fmt.Errorf("larger than %d bytes", maxAccounts)
	}
	return text, err
}
