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

// The cell is this program run again, once more than the warden: it confines
// itself and becomes the command. It gets its description and the end of a pipe
// where it says what went wrong; that it became the command is said by the
// pipe's end.
const (
	cellName             = "osaurus-local-cell"
	cellSpec, cellStatus = 3, 4 // descriptors
)

// limits bound what one process of a command may take. They are generous: they
// are for accidents, and a command that wants to do harm starts more processes.
var limits = []struct {
	resource int
	max      uint64
}{
	{unix.RLIMIT_CORE, mostCore},   // a core holds memory, and with it what secrets a command was given
	{unix.RLIMIT_NOFILE, 4096},     // what compilers and servers use, and little kernel memory
	{unix.RLIMIT_FSIZE, 4 << 30},   // a file that grows without end fills the user's disk
	{unix.RLIMIT_DATA, 4 << 30},    // and memory without end has the wrong program killed
	{unix.RLIMIT_MEMLOCK, 8 << 20}, // the kernel's own default
}

// becomeCommand never returns.
func becomeCommand() {
	// The thread that is confined is the one that becomes the command.
	runtime.LockOSThread()
	err := keepDescriptors()
	if err == nil {
		err = confineAndExec()
	}
	report := failure{Kind: fault.KindOf(err), Text: err.Error(), Advice: fault.AdviceOf(err)}
	_ = json.NewEncoder(os.NewFile(cellStatus, "status")).Encode(report)
	os.Exit(1)
}

// keepDescriptors keeps all but the command's three streams from it: what this
// program's parents left open came along too.
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
		return fault.Wrap("enter workspace", c.Workspace, err)
	}
	if err := limit(); err != nil {
		return err
	}
	if err := confine(c); err != nil {
		return err
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
	if err := confineCalls(c); err != nil {
		return err
	}
	return startFault(c.Args[0], syscall.Exec(path, c.Args, c.Env))
}

func readCell(fd int) (cell, error) {
	// Its size is the environment's and the command's, which the kernel bounds.
	var c cell
	err := gob.NewDecoder(io.NewSectionReader(descriptor(fd), 0, 1<<32)).Decode(&c)
	if err != nil {
		err = fault.New(fault.Execution, "read the command's description", "", err)
	}
	return c, err
}

// descriptor reads an open file without owning it: the warden hands it on.
type descriptor int

func (d descriptor) ReadAt(p []byte, offset int64) (int, error) {
	n, err := unix.Pread(int(d), p, offset)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

func setenv(v string) error {
	name, value, _ := strings.Cut(v, "=")
	return os.Setenv(name, value)
}

func limit() error {
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
