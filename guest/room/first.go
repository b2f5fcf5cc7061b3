//go:build linux

package room

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/fault/faultrpc"
	"osaurus-sandbox/guest/process"
)

// makePatience is how long the first process of a room may need for its mounts.
// Nothing of an agent runs before, so only the disk or a share can make it slow.
const makePatience = 30 * time.Second

// start starts the first process of the room and waits until the root is made.
func (r *Room) start(o Options, took *laps) error {
	const op = "make room"
	in, err := r.plan(o)
	if err != nil {
		return fault.New(fault.Execution, op, r.spec.User, err)
	}
	defer in.Close()
	out, theirs, err := os.Pipe()
	if err != nil {
		return fault.New(fault.Unavailable, op, r.spec.User, err)
	}
	defer out.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer null.Close()
		r.init, err = o.Keeper.Start(process.Spec{
			Args: []string{o.Program, InitCommand}, Dir: "/",
			// One thread at a time and a small heap: it waits, and little else.
			Env:        []string{"GOMAXPROCS=1", "GOMEMLIMIT=8MiB", "GOTRACEBACK=none"},
			Files:      [3]uintptr{in.Fd(), theirs.Fd(), null.Fd()},
			Place:      threshold{group(filepath.Join(o.Cgroup, inits))},
			Namespaces: entered,
		})
	}
	_ = theirs.Close()
	if err != nil {
		return err
	}
	if err := r.hold(); err != nil {
		r.init.Release()
		return fault.New(fault.Execution, op, r.spec.User, err)
	}
	took.lap("fork")
	connected, beside := make(chan error, 1), newLaps()
	go func() { connected <- r.network(r.spec, o, beside) }()
	err = r.await(out)
	took.lap("mounts")
	if failed := <-connected; err == nil {
		err = failed
	}
	took.lap(fmt.Sprintf("network, which took %v, after that", beside))
	if err != nil {
		r.init.Release()
		return fault.New(fault.Execution, op, r.spec.User, err).Advise("Look at the guest's console log; `reset` gives the agent a fresh layer.")
	}
	r.ptmx, err = os.OpenFile(fmt.Sprintf("/proc/%d/root/dev/pts/ptmx", r.init.PID()), unix.O_PATH, 0)
	if err == nil {
		r.desk, err = r.makeDesk()
	}
	if err != nil || r.dead() {
		r.init.Release()
		return fault.New(fault.Execution, op, r.spec.User, errors.Join(errors.New("its first process ended"), err))
	}
	return nil
}

// plan is a file with what the first process is to make.
func (r *Room) plan(o Options) (*os.File, error) {
	text, err := json.Marshal(plan{
		User: r.spec.User, UID: r.spec.Uid, Home: r.spec.Home, Hostname: r.spec.Hostname, Memory: r.spec.Limits.MemoryBytes,
		Base: o.Base, Layer: r.layer, Files: r.files, Resolvers: o.Resolvers, Shim: o.Shim, Outlet: r.outlet.socket != nil,
	})
	if err != nil {
		return nil, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if _, err := out.Write(text); err != nil { // a pipe holds more than the plan has
		_ = in.Close()
		return nil, err
	}
	return in, nil
}

// hold takes hold of the first process itself, whatever becomes of its pid.
func (r *Room) hold() error {
	fd, err := unix.PidfdOpen(r.init.PID(), 0)
	if err != nil {
		return fmt.Errorf("hold the first process: %w", err)
	}
	r.pidfd = os.NewFile(uintptr(fd), "room")
	if r.dead() { // then the pid may have been another's
		return errors.New("its first process ended")
	}
	return nil
}

// await reads what the first process reports.
func (r *Room) await(out *os.File) error {
	_ = out.SetReadDeadline(time.Now().Add(makePatience))
	text, err := io.ReadAll(io.LimitReader(newLine(out), maxReport))
	if err != nil {
		return fmt.Errorf("wait for its first process: %w", err)
	}
	var said report
	if err := json.Unmarshal(bytes.TrimSpace(text), &said); err != nil {
		return fmt.Errorf("its first process said %q", faultrpc.Clip(string(text)))
	}
	if said.Failure != "" {
		return errors.New(said.Failure)
	}
	r.shell = said.Shell
	r.lacks = append(r.lacks, said.Warnings...)
	return nil
}

// line reads to the end of a line, and no further.
type line struct {
	from io.Reader
	done bool
}

func newLine(from io.Reader) io.Reader { return &line{from: from} }

func (l *line) Read(b []byte) (int, error) {
	if l.done {
		return 0, io.EOF
	}
	n, err := l.from.Read(b)
	l.done = bytes.IndexByte(b[:n], '\n') >= 0
	return n, err
}
