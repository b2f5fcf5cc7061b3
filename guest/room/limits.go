//go:build linux

package room

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
)

// Default limits of a room.
const (
	defaultWeight = 100 // the kernel's default
	defaultPids   = 512 // enough for a parallel build; stops a fork bomb
)

// defaults returns a copy of l with zero limits replaced by defaults.
func (m *Manager) defaults(l *guestpb.Limits) *guestpb.Limits {
	var st unix.Statfs_t
	_ = unix.Statfs(m.opts.Data, &st) // on failure Blocks is 0
	l = proto.CloneOf(l)
	if l == nil {
		l = &guestpb.Limits{}
	}
	l.CpuWeight = cmp.Or(l.CpuWeight, defaultWeight)
	l.Pids = cmp.Or(l.Pids, defaultPids)
	l.MemoryBytes = cmp.Or(l.MemoryBytes, totalMemory()/2)
	// Half of the disk, so that one agent cannot fill it.
	l.DiskBytes = cmp.Or(l.DiskBytes, st.Blocks*uint64(st.Bsize)/2)
	l.DiskFiles = cmp.Or(l.DiskFiles, st.Files/2)
	return l
}

// limit sets the limits of a room.
func (r *Room) limit(l *guestpb.Limits) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(r.disk.Fd()), &st); err != nil {
		return err
	}
	return errors.Join(
		r.group.limit(l, st.Dev), r.group.limitMemory(l.MemoryBytes), setLimits(r.disk, r.spec.Uid, l.DiskBytes, l.DiskFiles))
}

// fit resizes /dev/shm and /run for a new memory limit, except those that already hold more.
func (r *Room) fit(memory uint64) error {
	return process.InNamespaces(int(r.pidfd.Fd()), unix.CLONE_NEWNS, func() error {
		for path, size := range map[string]string{"/dev/shm": shmSize(memory), "/run": runSize(memory)} {
			f, err := unix.Fspick(unix.AT_FDCWD, path, unix.FSPICK_CLOEXEC|unix.FSPICK_SYMLINK_NOFOLLOW)
			if err != nil {
				return fmt.Errorf("size of %s: %w", path, err)
			}
			key, value, _ := strings.Cut(size, "=")
			err = unix.FsconfigSetString(f, key, value)
			if err == nil {
				err = unix.FsconfigReconfigure(f)
			}
			_ = unix.Close(f)
			if err != nil && err != unix.EINVAL {
				return fmt.Errorf("size of %s: %w", path, err)
			}
		}
		return nil
	})
}

// ioctl requests missing from golang.org/x/sys/unix.
const (
	fsGetXattr = 0x801c581f // FS_IOC_FSGETXATTR
	fsSetXattr = 0x401c5820 // FS_IOC_FSSETXATTR
)

// From linux/fs.h and linux/quota.h.
type fsxattr struct {
	flags, extentSize, extents, project, cowExtentSize uint32
	_                                                  [8]byte
}

type dqblk struct {
	blockHard, blockSoft, space, fileHard, fileSoft, files, blockTime, fileTime uint64
	valid, _                                                                    uint32
}

const (
	projectInherit = 0x200
	projectQuota   = 2
	getQuota       = 0x800007<<8 | projectQuota
	setQuota       = 0x800008<<8 | projectQuota
	validLimits    = 1 | 4 // QIF_BLIMITS, QIF_ILIMITS
	quotaBlock     = 1024  // unit of limits in bytes
)

// setProject assigns a directory, and everything created in it later, to a quota project.
func setProject(dir string, id uint32) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	var x fsxattr
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fsGetXattr, uintptr(unsafe.Pointer(&x))); e != 0 {
		return &os.PathError{Op: "get project", Path: dir, Err: e}
	}
	if x.project == id && x.flags&projectInherit != 0 {
		return nil
	}
	x.project = id
	x.flags |= projectInherit
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fsSetXattr, uintptr(unsafe.Pointer(&x))); e != 0 {
		return &os.PathError{Op: "set project", Path: dir, Err: e}
	}
	return nil
}

// setLimits sets a project's quota on the disk that holds dir.
func setLimits(dir *os.File, project uint32, bytes, files uint64) error {
	q := dqblk{blockHard: bytes / quotaBlock, fileHard: files, valid: validLimits}
	return quotactl(dir, setQuota, project, &q)
}

// quotaOf returns the usage and quota of a project.
func quotaOf(dir *os.File, project uint32) (dqblk, error) {
	var q dqblk
	err := quotactl(dir, getQuota, project, &q)
	return q, err
}

// atLimit reports whether a project has used its quota, within the rounding of a write.
func (q dqblk) atLimit() bool {
	const slack = 64 << 10
	return q.blockHard != 0 && q.space+slack >= q.blockHard*quotaBlock || q.fileHard != 0 && q.files >= q.fileHard
}

func quotactl(dir *os.File, command, project uint32, q *dqblk) error {
	return process.Control(dir, func(fd int) error { // fails if the room was removed meanwhile
		_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), uintptr(command), uintptr(project), uintptr(unsafe.Pointer(q)), 0, 0)
		if errno != 0 {
			return os.NewSyscallError("quotactl_fd", errno)
		}
		return nil
	})
}
