//go:build linux

package pid1

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killPatience bounds the wait for killed processes.
	killPatience = 2 * time.Second
	// writePatience bounds the final sync, which would hang on a share whose host is dead.
	writePatience = 20 * time.Second
	aliveCheck    = 5 * time.Millisecond
)

// PowerOff ends all processes, unmounts the disks cleanly and turns the machine off. It does not
// return. A second call waits for the first.
func (m *machine) PowerOff(grace time.Duration) {
	if m.ending.Swap(true) {
		select {}
	}
	for _, l := range m.listeners {
		_ = l.Close()
	}
	m.log("power off")
	// To all processes except this one, which reaps them.
	_ = unix.Kill(-1, unix.SIGTERM)
	_ = unix.Kill(-1, unix.SIGHUP) // interactive shells ignore SIGTERM
	if !aloneWithin(grace) {
		_ = unix.Kill(-1, unix.SIGKILL)
		if !aloneWithin(killPatience) {
			m.log("some processes cannot be killed")
		}
	}
	written := make(chan struct{})
	go func() { defer close(written); m.leaveDisks() }()
	select {
	case <-written:
	case <-time.After(writePatience):
		m.log("the disks do not answer: powering off without them")
	}
	m.log("off")
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	m.log("power off: %v", err)
	select {}
}

// aloneWithin waits until no other process is left. All processes are descendants of PID 1 and
// become its children when their parents end, so it checks that there is no child.
func aloneWithin(patience time.Duration) bool {
	const look = unix.WEXITED | unix.WNOHANG | unix.WNOWAIT | unix.WALL
	for end := time.Now().Add(patience); ; time.Sleep(aliveCheck) {
		if unix.Waitid(unix.P_ALL, 0, nil, look, nil) == unix.ECHILD {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// leaveDisks syncs and makes the file systems read-only, so that their journals are clean. The
// overlay comes first, then the disks below it.
func (m *machine) leaveDisks() {
	m.late.Wait()
	if m.service != nil {
		m.service.Close() // closes the logs of jobs, which are on the data disk
	}
	m.mu.Lock()
	mounts := m.mounts
	m.mu.Unlock()
	for i := len(mounts) - 1; i >= 0; i-- {
		if err := unix.Unmount(string(mounts[i].Path), unix.MNT_DETACH); err != nil {
			m.log("unmount %s: %v", mounts[i].Path, err)
		}
	}
	unix.Sync()
	if !m.hasData.Load() {
		return
	}
	for _, path := range []string{"/", own + "/data"} {
		if err := remountReadOnly(path); err != nil {
			m.log("make %s read-only: %v", path, err)
		}
	}
}

// remountReadOnly retries for a short time, because mounts of rooms disappear shortly after their
// last process. It counts tries, since a busy host can stop the whole machine for longer.
func remountReadOnly(path string) (err error) {
	for range killPatience / aliveCheck {
		if err = unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != unix.EBUSY {
			break
		}
		time.Sleep(aliveCheck)
	}
	return err
}
