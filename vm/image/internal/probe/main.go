//go:build linux

// Command probe is init for tests: it uses an image like a guest, prints what it finds, and powers off.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(); err != nil {
		say("error", err)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// say writes a line that the test looks for.
func say(key string, values ...any) {
	fmt.Printf("PROBE %s %s\n", key, strings.TrimSpace(fmt.Sprintln(values...)))
}

func run() error {
	began := time.Now()
	for _, list := range []string{"order", "late"} {
		count, err := load(list)
		if err != nil {
			return err
		}
		say(list, count, "modules", time.Since(began).Milliseconds(), "ms")
	}
	for _, dir := range []string{"/proc", "/base", "/data"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	if err := unix.Mount("dev", "/dev", "devtmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount dev: %w", err)
	}
	if uptime, err := os.ReadFile("/proc/uptime"); err == nil {
		say("uptime", strings.Fields(string(uptime))[0])
	}
	return errors.Join(base(), data())
}

// load loads the modules of a list.
func load(list string) (int, error) {
	names, err := os.ReadFile(filepath.Join("/modules", list))
	if err != nil {
		return 0, err
	}
	count := 0
	for name := range strings.FieldsSeq(string(names)) {
		module, err := os.ReadFile(filepath.Join("/modules", name))
		if err != nil {
			return 0, err
		}
		if err := unix.InitModule(module, ""); err != nil {
			return 0, fmt.Errorf("load %s: %w", name, err)
		}
		count++
	}
	return count, nil
}

// base mounts the base and prints the attributes of its files.
func base() error {
	if err := unix.Mount("/dev/vda", "/base", "ext4", unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount base: %w", err)
	}
	if err := unix.Mount("", "/base", "", unix.MS_REMOUNT, ""); err == nil {
		return errors.New("the base could be made writable")
	}
	entries, err := os.ReadDir("/base/many")
	if err != nil {
		return err
	}
	say("many", len(entries))
	for _, name := range []string{"su", "first", "dev/null", "far", "many/file-2999", "labelled", "workspace"} {
		path := filepath.Join("/base", name)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		value := make([]byte, 8192)
		n, _ := unix.Lgetxattr(path, "user.long", value)
		target, _ := os.Readlink(path)
		say("file", name, fmt.Sprintf("mode=%o owner=%d:%d links=%d size=%d rdev=%x mtime=%d xattr=%d target=%d", st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, st.Rdev, st.Mtim.Sec, max(n, 0), len(target)))
	}
	content, err := os.ReadFile("/base/second")
	say("second", string(content))
	return err
}

// resize is EXT4_IOC_RESIZE_FS.
const resize = 0x40086610

// data mounts the data disk with quotas, grows it to its device, and writes to it.
func data() error {
	if err := unix.Mount("/dev/vdb", "/data", "ext4", unix.MS_NODEV|unix.MS_NOSUID, "prjquota"); err != nil {
		return fmt.Errorf("mount data: %w", err)
	}
	dir, err := os.Open("/data")
	if err != nil {
		return err
	}
	device, err := os.Open("/dev/vdb")
	if err != nil {
		return err
	}
	defer device.Close()
	size, err := device.Seek(0, 2)
	if err != nil {
		return err
	}
	began := time.Now()
	blocks := uint64(size) / 4096
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), resize, uintptr(unsafe.Pointer(&blocks))); errno != 0 {
		return fmt.Errorf("grow: %w", errno)
	}
	took := time.Since(began)
	dir.Close()
	var fs unix.Statfs_t
	if err := unix.Statfs("/data", &fs); err != nil {
		return err
	}
	say("grown", "to", fs.Blocks*uint64(fs.Bsize)>>20, "MiB", "inodes", fs.Files, "in", took.Milliseconds(), "ms")
	before, _ := os.ReadFile("/data/kept")
	say("kept", strings.TrimSpace(string(before)))
	f, err := os.Create("/data/kept")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, "written"); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.HasPrefix(line, "/dev/vdb") {
			say("mount", line)
		}
	}
	if err := unix.Unmount("/data", 0); err != nil && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("unmount data: %w", err)
	}
	return nil
}
