//go:build linux

package qemu

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/qmp"
)

// lastWords bounds the wait for QEMU's exit status after it has hung up.
const lastWords = 2 * time.Second

// run is a running QEMU: its process, and our end of each connection.
type run struct {
	process *process
	console *vm.Console
	serving sync.WaitGroup // devices and console
	hangUp  func()         // hangs up on all devices

	conn      net.Conn      // the control connection, until connect
	connected chan struct{} // connect has returned
	control   *qmp.Client   // nil if it failed
}

// launch starts QEMU for a machine and serves its devices and console.
func launch(cfg *vm.Config, path string, accel Accelerator, backends []backend, log *slog.Logger) (_ *run, err error) {
	r := &run{connected: make(chan struct{})}
	var ours []*net.UnixConn
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close() // QEMU has its own
		}
		if err == nil {
			return
		}
		for _, c := range ours {
			c.Close()
		}
		if r.console != nil {
			r.console.Close()
		}
	}()
	// pair returns our end, and the number of the other one in QEMU.
	pair := func(name string) (*net.UnixConn, int, error) {
		c, f, err := socketPair(name)
		if err != nil {
			return nil, 0, err
		}
		ours, theirs = append(ours, c), append(theirs, f)
		return c, firstInherited + len(theirs) - 1, nil
	}

	var w wiring
	control, n, err := pair("control")
	if err != nil {
		return nil, err
	}
	r.conn, w.control = control, n
	console, n, err := pair("console")
	if err != nil {
		return nil, err
	}
	w.console = n
	devices := make([]*net.UnixConn, len(backends))
	for i, b := range backends {
		if devices[i], n, err = pair(b.name); err != nil {
			return nil, err
		}
		w.backends = append(w.backends, wire{b.argument, n})
	}
	if r.console, err = vm.OpenConsole(cfg.ConsoleLog); err != nil {
		return nil, err
	}
	if r.process, err = startProcess(path, arguments(cfg, accel, w), theirs); err != nil {
		return nil, err
	}

	r.serving.Go(func() {
		defer console.Close()
		_, _ = io.Copy(r.console, console) // ends with QEMU
	})
	ctx, hangUp := context.WithCancel(context.Background())
	r.hangUp = hangUp
	for i, b := range backends {
		r.serving.Go(func() { b.serve(ctx, devices[i], log) })
	}
	return r, nil
}

// connect makes the control connection.
func (r *run) connect(ctx context.Context, onEvent func(qmp.Event)) error {
	defer close(r.connected)
	c, err := qmp.Connect(ctx, r.conn, onEvent)
	if err != nil {
		return err
	}
	r.control = c
	return nil
}

// exits reports whether QEMU exits by itself after a failed connect. Its exit status then explains
// the failure.
func (r *run) exits() bool {
	select {
	case <-r.process.exited:
		return true
	case <-time.After(lastWords):
		return false
	}
}

// wait returns when QEMU and all goroutines that serve it have ended.
func (r *run) wait() {
	<-r.process.exited
	// A device that is stopping may wait for a hanging request and not notice QEMU's end.
	r.hangUp()
	// Read what QEMU has left in the sockets.
	r.serving.Wait()
	<-r.connected
	if r.control != nil {
		<-r.control.Done()
		_ = r.control.Close()
	}
	_ = r.console.Close()
}

func (r *run) alive() bool {
	select {
	case <-r.process.exited:
		return false
	default:
		return true
	}
}
