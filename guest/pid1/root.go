//go:build linux

package pid1

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Paths before and after the root changes. The guest program keeps its own files under own.
const (
	baseDisk, dataDisk = "/dev/vda", "/dev/vdb"

	own     = "/run/osaurus"
	newRoot = "/newroot"

	// The overlay's folders on the data disk, next to rooms.
	systemUpper, systemWork = "/system/upper", "/system/work"
)

// diskPatience bounds the wait for the device node of a disk that is on the bus.
const diskPatience = 5 * time.Second

// prepare mounts the root file system: an overlay of the read-only base and the data disk, or
// memory if there is no data disk. Without any disk the initramfs stays the root.
func (m *machine) prepare() error {
	disks := countDisks()
	if disks == 0 {
		if err := os.MkdirAll(own, 0o700); err != nil {
			return bootErr("prepare the initramfs", own, err, "")
		}
		if err := bindPrograms(own); err != nil {
			return bootErr("prepare the initramfs", own, err, "")
		}
		return m.finishRoot()
	}
	if err := m.mountBase(); err != nil {
		return err
	}
	upper := "/memory"
	if disks > 1 {
		upper = "/data"
		if err := m.mountData(upper); err != nil {
			return err
		}
		m.hasData.Store(true)
	} else if err := mount("tmpfs", upper, "tmpfs", quiet, "mode=0755"); err != nil {
		return bootErr("mount memory", upper, err, "")
	}
	for _, d := range []string{systemUpper, systemWork} {
		if err := os.MkdirAll(upper+d, 0o755); err != nil {
			return bootErr("prepare the root's upper layer", upper+d, err, "If the data disk is full or damaged, reset it.")
		}
	}
	options := "lowerdir=/base,upperdir=" + upper + systemUpper + ",workdir=" + upper + systemWork
	if err := mount("overlay", newRoot, "overlay", 0, options); err != nil {
		return bootErr("mount root", newRoot, err, "The image has no overlay module: rebuild it.")
	}
	if err := m.switchRoot(upper); err != nil {
		return bootErr("change root", newRoot, err, "")
	}
	return m.finishRoot()
}

// finishRoot makes the mounts that every root has, and sets the sysctls for agents.
func (m *machine) finishRoot() error {
	if err := mount("tmpfs", "/tmp", "tmpfs", quiet, "mode=1777"); err != nil {
		return bootErr("mount memory", "/tmp", err, "")
	}
	if err := os.WriteFile(resolvers, nil, 0o644); err != nil {
		return bootErr("make file", resolvers, err, "")
	}
	m.set(kernelSettings())
	text := read("/etc/os-release")
	m.mu.Lock()
	m.release = osRelease(text)
	m.mu.Unlock()
	return nil
}

func (m *machine) mountBase() error {
	if err := awaitDisk(baseDisk); err != nil {
		return bootErr("find base disk", baseDisk, err, "The image has no virtio_blk module: rebuild it.")
	}
	if err := mount(baseDisk, "/base", "ext4", unix.MS_RDONLY|unix.MS_NODEV, ""); err != nil {
		return bootErr("mount base", baseDisk, err, "The image is damaged: rebuild it.")
	}
	return nil
}

// mountData mounts the data disk. If the device is larger than the file system, it grows the file
// system in the background.
func (m *machine) mountData(target string) error {
	if err := awaitDisk(dataDisk); err != nil {
		return bootErr("find data disk", dataDisk, err, "")
	}
	if err := mount(dataDisk, target, "ext4", quiet|unix.MS_NOATIME, "prjquota"); err != nil {
		return bootErr("mount data", dataDisk, err, "The data disk is damaged, or its file system or the kernel lacks project quotas: check it with e2fsck, or reset it.")
	}
	root, err := os.Open(target)
	if err != nil {
		return bootErr("open data", target, err, "")
	}
	m.late.Go(func() {
		defer root.Close()
		m.warn("grow data disk", m.grow(root))
	})
	return nil
}

// grow grows the data disk's file system to the size of the disk. It is fast if there is nothing to
// do.
func (m *machine) grow(root *os.File) error {
	size, err := deviceSize(dataDisk)
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &st); err != nil {
		return err
	}
	err = growTo(root, size/uint64(st.Bsize))
	if errors.Is(err, unix.EPERM) { // the kernel's answer for a file system with recorded errors
		return errors.New("the file system has recorded errors but keeps working: reset it, or repair it with e2fsck while the sandbox is down")
	}
	return err
}

// switchRoot makes newRoot the root without starting this program again, so its open files stay
// valid.
func (m *machine) switchRoot(upper string) error {
	if err := mount("tmpfs", newRoot+"/run", "tmpfs", quiet, "mode=0755"); err != nil {
		return err
	}
	if err := os.Mkdir(newRoot+own, 0o700); err != nil {
		return err
	}
	if err := bindPrograms(newRoot + own); err != nil {
		return err
	}
	for from, to := range map[string]string{
		"/proc": "/proc", "/sys": "/sys", "/dev": "/dev", "/base": own + "/base", upper: own + "/data",
	} {
		to = newRoot + to
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(from, to, "", unix.MS_MOVE, ""); err != nil {
			return &os.PathError{Op: "move mount", Path: to, Err: err}
		}
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return os.Chdir("/")
}

// bindPrograms mounts programs of the initramfs into dir: this one, which helpers execute again,
// and the bridge client.
func bindPrograms(dir string) error {
	return errors.Join(bindProgram("/init", dir+"/guest"), bindProgram("/osaurus-host", dir+"/host"))
}

func bindProgram(from, path string) error {
	if err := os.WriteFile(path, nil, 0o555); err != nil {
		return err
	}
	if err := unix.Mount(from, path, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "bind", Path: path, Err: err}
	}
	return nil
}

// countDisks counts the virtio disks on the bus.
func countDisks() int {
	const block = "0x0002"
	n := 0
	ids, _ := filepath.Glob("/sys/bus/virtio/devices/*/device")
	for _, id := range ids {
		if b, err := os.ReadFile(id); err == nil && strings.TrimSpace(string(b)) == block {
			n++
		}
	}
	return n
}

func awaitDisk(path string) error {
	for end := time.Now().Add(diskPatience); ; time.Sleep(time.Millisecond) {
		_, err := os.Stat(path)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
