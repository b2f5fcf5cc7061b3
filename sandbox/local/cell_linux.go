package local

import (
	"encoding/gob"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/fault"
)

// The cell is this program run again, once more than the warden: it confines
// itself and becomes the command. It gets its description and the end of a pipe
// where it says what went wrong; that it became the command is said by the
// pipe's end.
const (
	cellName             = "osaurus-local-cell"
	cellSpec, cellStatus = 3, 4 // descriptors
)

// Confinement says what is enforced on this system, for people.
const Confinement = "Landlock (files, signals, abstract sockets), seccomp, resource limits, no new privileges, no capabilities"

// limits bound what one process of a command may take. They are generous: they
// are for accidents, and a command that wants to do harm starts more processes.
var limits = []struct {
	resource int
	max      uint64
}{
	{unix.RLIMIT_CORE, 0},          // a core file holds memory, and nobody reads it
	{unix.RLIMIT_NOFILE, 4096},     // what compilers and servers use, and little kernel memory
	{unix.RLIMIT_FSIZE, 4 << 30},   // a file that grows without end fills the user's disk
	{unix.RLIMIT_DATA, 4 << 30},    // and memory without end has the wrong program killed
	{unix.RLIMIT_MEMLOCK, 8 << 20}, // the kernel's own default
}

// becomeCommand never returns.
func becomeCommand() {
	// The thread that is confined is the one that becomes the command.
	runtime.LockOSThread()
	unix.CloseOnExec(cellSpec)
	unix.CloseOnExec(cellStatus)
	err := confineAndExec()
	report := failure{Kind: fault.KindOf(err), Text: err.Error(), Advice: fault.AdviceOf(err)}
	_ = json.NewEncoder(os.NewFile(cellStatus, "status")).Encode(report)
	os.Exit(1)
}

// failure is a fault on its way through a pipe.
type failure struct {
	Kind   fault.Kind `json:"kind"`
	Text   string     `json:"text"`
	Advice string     `json:"advice,omitempty"`
}

func (f failure) fault() error {
	return fault.New(f.Kind, "", "", errors.New(f.Text)).Advise(f.Advice)
}

func confineAndExec() error {
	c, err := readCell(cellSpec)
	if err != nil {
		return err
	}
	if err := os.Chdir(c.Workspace); err != nil {
		return fault.New(fault.KindOf(err), "enter workspace", c.Workspace, err)
	}
	for _, confine := range []func(cell) error{limit, dropCapabilities, restrictFiles} {
		if err := confine(c); err != nil {
			return err
		}
	}
	// The program is looked for as the command itself would.
	os.Clearenv()
	for _, v := range c.Env {
		if err := setenv(v); err != nil {
			return err
		}
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return startFault(c.Args[0], err)
	}
	if err := filter(c).Install(); err != nil {
		return fault.New(fault.Unavailable, "confine command", "", err)
	}
	return startFault(c.Args[0], syscall.Exec(path, c.Args, c.Env))
}

func readCell(fd int) (cell, error) {
	// Its size is the environment's and the command's, which the kernel bounds.
	var c cell
	file := os.NewFile(uintptr(fd), "cell")
	err := gob.NewDecoder(io.NewSectionReader(file, 0, 1<<32)).Decode(&c)
	if err != nil {
		err = fault.New(fault.Execution, "read the command's description", "", err)
	}
	return c, err
}

func setenv(v string) error {
	for i := range len(v) {
		if i > 0 && v[i] == '=' {
			return os.Setenv(v[:i], v[i+1:])
		}
	}
	return nil
}

func limit(cell) error {
	for _, l := range limits {
		// Not beyond what this process itself may.
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &now); err != nil {
			return fault.New(fault.Unavailable, "limit resources", "", err)
		}
		most := min(l.max, now.Max)
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fault.New(fault.Unavailable, "limit resources", "", err)
		}
	}
	return nil
}

// dropCapabilities leaves root without what makes it root. With no_new_privs
// nothing that it executes gets any of it back.
func dropCapabilities(cell) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fault.New(fault.Unavailable, "forbid new privileges", "", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fault.New(fault.Unavailable, "drop capabilities", "", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fault.New(fault.Unavailable, "drop capabilities", "", err)
	}
	return nil
}

// available says what is missing before anything is tried.
func available() error {
	if os.Args[0] == wardenName || os.Args[0] == cellName {
		// Or each would make another.
		return fault.New(fault.Unavailable, "make the UNSAFE local sandbox", "", errors.New("this program does not begin with local.Helper")).
			Advise("Call local.Helper first in main, or in TestMain.")
	}
	return nil
}

func startFault(name string, err error) error {
	kind := fault.KindOf(err)
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, unix.ENOTDIR):
		kind = fault.NotFound
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.ENOEXEC), errors.Is(err, exec.ErrDot):
		kind = fault.Rejected
	case errors.Is(err, unix.E2BIG):
		kind = fault.InvalidArgs
	}
	return fault.New(kind, "start program", name, err)
}
