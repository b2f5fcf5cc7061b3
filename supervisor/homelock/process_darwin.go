package homelock

import "golang.org/x/sys/unix"

// startTime returns the start of a process, in microseconds since 1970.
func startTime(pid int) (uint64, error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, err
	}
	t := p.Proc.P_starttime
	return uint64(t.Sec)*1e6 + uint64(t.Usec), nil
}

// bootID returns an id that changes with every boot of the computer.
func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }
