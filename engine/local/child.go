package local

import (
	"encoding/gob"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// The child is this program, run again by the monitor. It reads its spec, confines
// itself and executes the command. It reports failures over a pipe, which is closed
// when it executes the command.
const (
	childName              = "osaurus-local-child"
	childSpec, childStatus = 3, 4 // descriptors
)

// limits are the resource limits of each process of a command. They are generous, because
// they only prevent accidents: an attacker starts more processes.
var limits = []struct {
	resource int
	max      uint64
}{
	{unix.RLIMIT_CORE, mostCore},   // core files may contain secrets
	{unix.RLIMIT_NOFILE, 4096},     // enough for compilers and servers
	{unix.RLIMIT_FSIZE, 4 << 30},   // protects the user's disk
	{unix.RLIMIT_DATA, 4 << 30},    // protects the user's other programs from the OOM killer
	{unix.RLIMIT_MEMLOCK, 8 << 20}, // the kernel's own default
}

// becomeCommand never returns.
func becomeCommand() {
	// The confined thread must be the one that executes the command.
	runtime.LockOSThread()
	err := keepDescriptors()
	if err == nil {
		err = confineAndExec()
	}
	report := failure{Kind: fault.KindOf(err), Text: err.Error(), Advice: fault.AdviceOf(err)}
	_ = json.NewEncoder(os.NewFile(childStatus, "status")).Encode(report)
	os.Exit(1)
}

// keepDescriptors marks all descriptors except the three streams close-on-exec, also
// inherited ones.
func keepDescriptors() error {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fault.New(fault.Unavailable, "keep descriptors from the command", "", err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// failure is a fault in the form in which it is sent over a pipe.
type failure struct {
	Kind   fault.Kind `json:"kind"`
	Text   string     `json:"text"`
	Advice string     `json:"advice,omitempty"`
}

func (f failure) fault() error {
	return fault.New(f.Kind, "", "", errors.New(f.Text)).Advise(f.Advice)
}

func confineAndExec() error {
	c, err := readSpec(os.NewFile(childSpec, "spec"))
	if err != nil {
		return err
	}
	if err := os.Chdir(c.Workspace); err != nil {
		return fault.Wrap("enter workspace", c.Workspace, err)
	}
	if err := limit(); err != nil {
		return err
	}
	if err := confine(c); err != nil {
		return err
	}
	// Look the program up in the command's environment.
	os.Clearenv()
	for _, v := range c.Env {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return startFault(c.Args[0], err)
	}
	if err := confineCalls(c); err != nil {
		return err
	}
	return startFault(c.Args[0], syscall.Exec(path, c.Args, c.Env))
}

// readSpec reads a spec without moving the file's offset, since the monitor passes the file on.
func readSpec(file *os.File) (spec, error) {
	// The kernel bounds the size of environment and arguments.
	var c spec
	err := gob.NewDecoder(io.NewSectionReader(file, 0, 1<<32)).Decode(&c)
	if err != nil {
		err = fault.New(fault.Execution, "read the command's description", "", err)
	}
	return c, err
}

func limit() error {
	for _, l := range limits {
		// Do not raise this process's own limits.
		var now syscall.Rlimit
		err := syscall.Getrlimit(l.resource, &now)
		if err == nil {
			most := min(l.max, now.Max)
			err = syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: most, Max: most})
		}
		if err != nil {
			return fault.New(fault.Unavailable, "limit resources", "", err)
		}
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
