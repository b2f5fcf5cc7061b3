//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endProcesses waits for what the command started to end, then kills and names
// what has not.
func endProcesses(grace time.Duration) []string {
	deadline := time.Now().Add(grace)
	for {
		reapOrphans(0)
		if len(descendants()) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	var left []string
	for found := descendants(); len(found) > 0; found = descendants() {
		for pid, name := range found {
			left = append(left, fmt.Sprintf("process %d: %s", pid, name))
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return append(left, fmt.Sprintf("process %d cannot be killed: %v", pid, err))
			}
			// Only a child of ours can be waited for; the others become one.
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
	}
	return left
}

// reapOrphans collects the children that have ended, but for one that has
// somebody else who waits for it.
func reapOrphans(except int) {
	for pid, p := range processes() {
		if p.parent == os.Getpid() && p.state == "Z" && pid != except {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}

type process struct {
	parent int
	state  string
}

// processes are all processes of this host.
func processes() map[int]process {
	all := map[int]process{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name in parentheses may hold anything; the state and the parent follow the last one.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, _ := strconv.Atoi(fields[1])
		all[pid] = process{parent, fields[0]}
	}
	return all
}

// descendants are this process's children and theirs, with their command lines.
func descendants() map[int]string {
	all, found := processes(), map[int]string{}
	for pid := range all {
		for p := all[pid].parent; p > 1; p = all[p].parent {
			if p == os.Getpid() {
				found[pid] = commandLine(pid)
				break
			}
		}
	}
	return found
}

func commandLine(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.TrimSpace(string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
}

// endMounts names what is mounted under a folder, and unmounts it.
func endMounts(dir string) []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for line := range strings.Lines(string(text)) {
		point := strings.Fields(line)[4]
		if point == dir || strings.HasPrefix(point, dir+"/") {
			left = append(left, "mount: "+point)
			if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
				left = append(left, fmt.Sprintf("mount %s cannot be undone: %v", point, err))
			}
		}
	}
	return left
}

// files names what a folder holds: sockets wherever they are, else the top.
func files(dir string) []string {
	var left []string
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Type()&os.ModeSocket != 0:
			left = append(left, "socket: "+path)
		case filepath.Dir(path) == dir:
			left = append(left, "file: "+path)
		}
		return nil
	})
	if err != nil {
		left = append(left, err.Error())
	}
	return left
}
