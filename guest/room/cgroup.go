//go:build linux

package room

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
)

const (
	// reserve is kept from rooms for PID 1 and the kernel, so that the guest still answers when
	// agents use all of their memory.
	reserve = 128 << 20
	// cpuPeriod is the kernel's default, in microseconds.
	cpuPeriod = 100_000
	// manyProcessors is more than a guest has.
	manyProcessors = 1000
)

// group is a directory of the cgroup2 file system.
type group string

// prepareGroups creates the parent group of all rooms.
func prepareGroups(all group) error {
	const controllers = "+cpu +memory +pids +io"
	if err := group(filepath.Dir(string(all))).write("cgroup.subtree_control", controllers); err != nil {
		return err
	}
	firsts := group(filepath.Join(string(all), inits))
	if err := os.MkdirAll(string(firsts), 0o755); err != nil {
		return err
	}
	return errors.Join(
		all.write("cgroup.subtree_control", controllers),
		// This limit has no effect, but it keeps CPU limits in use. The kernel patches its code
		// when the first limit is set and the last is removed, which can hang emulated processors
		// (QEMU 7.2).
		firsts.write("cpu.max", fmt.Sprintf("%d %d", manyProcessors*cpuPeriod, cpuPeriod)),
		all.write("memory.max", strconv.FormatUint(max(totalMemory(), 2*reserve)-reserve, 10)),
		all.noSwap())
}

// make creates the group of a room. Each command gets a child group with an equal share of the
// processor, so that a new command does not wait behind the threads of another.
func (g group) make() error {
	if err := os.MkdirAll(string(g), 0o755); err != nil {
		return err
	}
	return errors.Join(g.write("cgroup.subtree_control", "+cpu"), g.noSwap())
}

func (g group) noSwap() error {
	err := g.write("memory.swap.max", "0")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without swap
		return nil
	}
	return err
}

// limit sets all limits of a room except memory. Device is the data disk. Reads of the base are not
// limited: its pages are shared, and other rooms would wait for pages that a throttled room is
// reading.
func (g group) limit(l *guestpb.Limits, device uint64) error {
	cpu := "max"
	if l.CpuMaxMillis != 0 {
		cpu = strconv.FormatUint(uint64(l.CpuMaxMillis)*cpuPeriod/1000, 10)
	}
	rate := "max"
	if l.IoBytesPerSecond != 0 {
		rate = strconv.FormatUint(l.IoBytesPerSecond, 10)
	}
	return errors.Join(
		g.write("cpu.weight", strconv.FormatUint(uint64(l.CpuWeight), 10)),
		g.write("cpu.max", fmt.Sprintf("%s %d", cpu, cpuPeriod)),
		g.write("pids.max", strconv.FormatUint(uint64(l.Pids), 10)),
		g.write("io.max", fmt.Sprintf("%d:%d rbps=%s wbps=%s", unix.Major(device), unix.Minor(device), rate, rate)),
	)
}

// limitMemory sets the memory limit. It sets memory.high first, for which the kernel reclaims memory
// without killing programs as it does for memory.max.
func (g group) limitMemory(limit uint64) error {
	text := strconv.FormatUint(limit, 10)
	return errors.Join(g.write("memory.high", text), g.write("memory.max", text), g.write("memory.high", "max"))
}

// kill kills all processes in the group and its children and removes it. It fails if that takes too
// long.
func (g group) kill() error {
	const patience, look = 5 * time.Second, 2 * time.Millisecond
	if err := g.write("cgroup.kill", "1"); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; time.Sleep(look) {
		err := g.remove()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// remove removes the group and its children. All must be empty.
func (g group) remove() error {
	below, err := os.ReadDir(string(g))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, b := range below {
		if b.IsDir() {
			if err := unix.Rmdir(filepath.Join(string(g), b.Name())); err != nil && err != unix.ENOENT {
				return &os.PathError{Op: "remove group", Path: filepath.Join(string(g), b.Name()), Err: err}
			}
		}
	}
	if err := unix.Rmdir(string(g)); err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "remove group", Path: string(g), Err: err}
	}
	return nil
}

func (g group) write(file, text string) error {
	f, err := os.OpenFile(filepath.Join(string(g), file), os.O_WRONLY, 0) // without O_CREATE
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// number reads a file that contains one number.
func (g group) number(file string) uint64 {
	b, _ := os.ReadFile(filepath.Join(string(g), file))
	n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n
}

// value returns the number after name in text, which has lines "name number".
func value(text, name string) uint64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

func (g group) text(file string) string {
	b, _ := os.ReadFile(filepath.Join(string(g), file))
	return string(b)
}

func totalMemory() uint64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return 0
	}
	return uint64(i.Totalram) * uint64(i.Unit)
}
