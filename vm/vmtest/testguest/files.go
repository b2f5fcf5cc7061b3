//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func child(name string, args []string) int { return childOut(name, args, os.Stdout) }

// childOut runs one file system operation, possibly as another user.
func childOut(name string, args []string, w io.Writer) int {
	var err error
	switch name {
	case "stat":
		var st unix.Stat_t
		if err = unix.Lstat(args[0], &st); err == nil {
			fmt.Fprintf(w, "%d:%d %o %d", st.Uid, st.Gid, st.Mode, st.Size)
		}
	case "read":
		var b []byte
		b, err = os.ReadFile(args[0])
		fmt.Fprintf(w, "%s", b)
	case "write":
		err = os.WriteFile(args[0], []byte(strings.Join(args[1:], " ")), 0o644)
	case "chmod":
		var m uint64
		if m, err = strconv.ParseUint(args[1], 8, 32); err == nil {
			err = unix.Chmod(args[0], uint32(m))
		}
	case "chown":
		var id int
		if id, err = strconv.Atoi(args[1]); err == nil {
			err = os.Lchown(args[0], id, id)
		}
	case "ls":
		var es []os.DirEntry
		es, err = os.ReadDir(args[0])
		for _, e := range es {
			fmt.Fprintln(w, e.Name())
		}
	case "fchmodafter": // open, let others stat the file, then fchmod
		var f *os.File
		if f, err = os.Open(args[0]); err == nil {
			fmt.Fprint(w, "opened ")
			time.Sleep(time.Second)
			err = f.Chmod(0o640)
		}
	default:
		err = fmt.Errorf("unknown command %q", name)
	}
	if err != nil {
		fmt.Fprintf(w, "error: %v", err)
		return 1
	}
	return 0
}
