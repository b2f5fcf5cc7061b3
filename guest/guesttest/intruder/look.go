//go:build linux

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// setuid prints the user that it runs as.
func setuid([]string) { fmt.Println("uid", unix.Getuid(), "euid", unix.Geteuid()) }

// escape leaves a chroot by making another, and prints which paths it sees.
func escape(args []string) {
	_ = os.Mkdir("/tmp/cell", 0o755)
	say("chroot", unix.Chroot("/tmp/cell"))
	for range 64 {
		_ = unix.Chdir("..")
	}
	_ = unix.Chroot(".")
	for _, path := range args {
		_, err := os.Stat(path)
		fmt.Println(path, err == nil)
	}
}

// peek looks for a file and a text through /proc/PID of all processes up to a pid.
func peek(args []string) {
	last, _ := strconv.Atoi(args[0])
	found := 0
	for pid := range last {
		base := "/proc/" + strconv.Itoa(pid)
		for _, p := range []string{base + "/root" + args[1], base + "/cwd/" + filepath.Base(args[1])} {
			if _, err := os.ReadFile(p); err == nil {
				found++
			}
		}
		if b, err := os.ReadFile(base + "/environ"); err == nil && strings.Contains(string(b), args[2]) {
			found++
		}
	}
	fmt.Println("found", found)
}

// kernel prints which files directly in /proc can be read, and which anywhere in it can be opened for
// writing, except those of processes.
func kernel([]string) {
	_ = filepath.WalkDir("/proc", func(path string, e fs.DirEntry, err error) error {
		top := filepath.Dir(path) == "/proc"
		if _, no := strconv.Atoi(filepath.Base(path)); no == nil && top {
			return fs.SkipDir
		}
		if err != nil || e.IsDir() || e.Type() == fs.ModeSymlink {
			return nil
		}
		if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			_ = unix.Close(fd)
			fmt.Println("opened", path)
		}
		if !top {
			return nil
		}
		if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			if n, _ := unix.Read(fd, make([]byte, 1)); n > 0 {
				fmt.Println("read", path)
			}
			_ = unix.Close(fd)
		}
		return nil
	})
	fmt.Println("end")
}

// watch looks for starting processes that still execute the guest's program and can be inspected.
func watch(args []string) {
	fmt.Println("watching")
	found, seen := 0, map[string]bool{}
	for end := time.Now().Add(seconds(args)); len(seen) == 0 || time.Now().Before(end); {
		dir, err := os.Open("/proc")
		if err != nil {
			panic(err)
		}
		names, _ := dir.Readdirnames(-1)
		dir.Close()
		for _, name := range names {
			if _, err := strconv.Atoi(name); err != nil || name == strconv.Itoa(os.Getpid()) {
				continue
			}
			seen[name] = true
			exe, err := os.Readlink("/proc/" + name + "/exe")
			if err == nil && (strings.Contains(exe, "guest") || strings.Contains(exe, "init")) {
				found++
			}
		}
	}
	fmt.Println("seen", len(seen) > 0, "found", found)
}

// modes PATH... prints the mode and owner of each path.
func modes(args []string) {
	for _, path := range args {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			fmt.Println(path, unix.ErrnoName(err.(unix.Errno)))
			continue
		}
		fmt.Printf("%s %o %d:%d\n", path, st.Mode, st.Uid, st.Gid)
	}
}
