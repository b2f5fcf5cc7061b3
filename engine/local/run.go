package local

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// command is one command seen from the program that wanted it.
type command struct {
	warden  *exec.Cmd
	scratch string

	stdin          *os.File // our end, nil without an input
	stdout, stderr *os.File
	reports        *os.File

	mu     sync.Mutex
	orders *os.File // nil after the end
}

var _ engine.Means = (*command)(nil)

// start runs a command in a cell, and returns when it runs.
func start(ctx context.Context, req engine.Request, c cell) (_ engine.Handle, err error) {
	const op = "start command"
	spec, err := describe(c)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, "", err)
	}
	theirs, run := []*os.File{spec}, &command{scratch: c.Scratch}
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			run.closeFiles()
		}
	}()
	// pipe keeps one end for us and hands the other to the warden.
	pipe := func(ours **os.File, weWrite bool) *os.File {
		r, w, e := os.Pipe()
		if e != nil {
			err = e
			return nil
		}
		if weWrite {
			r, w = w, r
		}
		*ours = r
		theirs = append(theirs, w)
		return w
	}
	run.warden = &exec.Cmd{
		Path: selfProgram(), Args: []string{wardenName}, Env: []string{}, Dir: "/",
		Stdout: pipe(&run.stdout, false), Stderr: pipe(&run.stderr, false),
		ExtraFiles:  []*os.File{spec, pipe(&run.orders, true), pipe(&run.reports, false)},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if req.Stdin != nil {
		run.warden.Stdin = pipe(&run.stdin, true)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, "", err).Advise("Run fewer commands at once, or allow more open files.")
	}
	if err := run.warden.Start(); err != nil {
		return nil, fault.New(fault.Unavailable, op, "", err)
	}
	for _, f := range theirs {
		_ = f.Close() // so that the ends are seen
	}
	reports := json.NewDecoder(run.reports)
	if err := run.started(ctx, reports); err != nil {
		run.Kill()
		_ = run.warden.Wait()
		return nil, err
	}
	live := engine.NewLive(req, run)
	if run.stdin != nil {
		live.Feed(run.stdin)
	}
	go run.follow(live, reports)
	return live, nil
}

// encoded writes a cell to a file, for readers that begin at its start.
func encoded(c cell, f *os.File) (*os.File, error) {
	if err := gob.NewEncoder(f).Encode(c); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// started waits for the warden to say that the command runs.
func (c *command) started(ctx context.Context, reports *json.Decoder) error {
	const op = "start command"
	stop := context.AfterFunc(ctx, func() { _ = c.reports.SetReadDeadline(time.Now()) })
	defer stop()
	var r report
	switch err := reports.Decode(&r); {
	case err == nil && r.Started && stop(): // else the next report would be late too
		return nil
	case err == nil && r.Failed != nil:
		return r.Failed.fault()
	case ctx.Err() != nil:
		return fault.New(fault.KindOf(ctx.Err()), op, "", context.Cause(ctx))
	case err == nil, errors.Is(err, io.EOF):
		return withoutHelper(op)
	default:
		return fault.New(fault.Unavailable, op, "", err)
	}
}

// follow carries the output and tells the command's end.
func (c *command) follow(live *engine.Live, reports *json.Decoder) {
	var pumps sync.WaitGroup
	for _, p := range []struct {
		to   io.Writer
		from *os.File
	}{{live.Stdout(), c.stdout}, {live.Stderr(), c.stderr}} {
		pumps.Go(func() { _, _ = io.Copy(p.to, p.from) })
	}
	exit, err := engine.ExitStatus{Code: engine.NoCode, Note: Note}, error(nil)
	var r report
	if e := reports.Decode(&r); e != nil || r.Ended == nil {
		err = fault.Newf(fault.Unavailable, "wait for the command", "", "its warden is gone (%v)", e)
	} else if r.Ended.Signal != "" {
		exit.Signal = r.Ended.Signal
	} else {
		exit.Code = r.Ended.Code
	}
	silent := make(chan struct{})
	go func() { pumps.Wait(); close(silent) }()
	select {
	case <-silent:
	case <-time.After(engine.Linger):
	}
	c.Kill()
	_ = c.warden.Wait()
	<-silent
	live.End(exit, err)
}

func (c *command) Terminate() { c.order(orderTerminate) }

func (c *command) Kill() { c.order(orderKill) }

// order writes an order. It never blocks: a pipe has room for more orders than
// are ever given.
func (c *command) order(o byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.orders != nil {
		_, _ = c.orders.Write([]byte{o}) // fails when the warden has ended
	}
}

func (c *command) Release() error {
	c.closeFiles()
	if err := os.RemoveAll(c.scratch); err != nil {
		return fault.New(fault.Execution, "remove the command's temporary folder", c.scratch, err).Advise("Remove it by hand.")
	}
	return nil
}

func (c *command) closeFiles() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range []**os.File{&c.stdin, &c.stdout, &c.stderr, &c.reports, &c.orders} {
		if *f != nil {
			_ = (*f).Close()
		}
	}
	c.orders = nil
}

// signalName is a signal's name as kill -l has it.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return fmt.Sprint(int(s))
}
