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

// exitGrace bounds the wait for QEMU's exit status after it has hung up.
const exitGrace = 2 * time.Second

// run is a running QEMU: its process, and our end of each connection.
type run struct {
	*process
	console *vm.Console
	serving sync.WaitGroup // devices and console
	hangUp  func()         // hangs up on all devices

	conn      net.Conn      // the control connection, until connect
	connected chan struct{} // connect has returned
	control   *qmp.Client   // nil if it failed
}

// launch starts QEMU for a machine and serves its devices and console.
func launch(cfg *vm.Config, path string, accel string, backends []backend, log *slog.Logger) (_ *run, err error) {
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
	names := []string{"control", "console"}
	for _, b := range backends {
		names = append(names, b.name)
	}
	for _, name := range names { // in the order that arguments expects
		c, f, err := socketPair(name)
		if err != nil {
			return nil, err
		}
		ours, theirs = append(ours, c), append(theirs, f)
	}
	if r.console, err = vm.OpenConsole(cfg.ConsoleLog); err != nil {
		return nil, err
	}
	if r.process, err = startProcess(path, arguments(cfg, accel, backends), append(theirs, cfg.NIC)); err != nil {
		return nil, err
	}

	r.conn = ours[0]
	console, devices := ours[1], ours[2:]
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
	case <-r.exited:
		return true
	case <-time.After(exitGrace):
		return false
	}
}

// wait returns when QEMU and all goroutines that serve it have ended.
func (r *run) wait() {
	<-r.exited
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
