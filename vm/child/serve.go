package child

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

// followEvery is how often a state is compared with the one that the parent knows.
const followEvery = 20 * time.Millisecond

// Serve is the child: it runs one machine of a driver, whose connections are of type vm.Conn, and
// returns when parent and machine have ended or are done with each other.
func Serve(d vm.Driver) error {
	requests, err := vm.SocketOf(requestsFD)
	if err != nil {
		return err
	}
	defer requests.Close()
	debug.SetTraceback("crash")                                  // else macOS writes no crash report
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // the parent decides
	m, err := makeMachine(d, requests)
	for err == nil {
		var r request
		var c *net.UnixConn
		if c, err = receive(requests, &r); err == nil {
			go serve(m, c, r)
		}
	}
	if m == nil {
		return nil // the parent knows why
	}
	return m.Close()
}

// makeMachine serves the first request.
func makeMachine(d vm.Driver, requests *net.UnixConn) (vm.Machine, error) {
	var r request
	c, err := receive(requests, &r)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if r.Config.NIC != nil {
		unix.CloseOnExec(nicFD)
		r.Config.NIC = os.NewFile(nicFD, "nic")
	}
	m, err := d.New(context.Background(), *r.Config)
	return m, errors.Join(err, send(c, answer{Failure: newFailure(err)}, nil))
}

// serve answers a request.
func serve(m vm.Machine, c *net.UnixConn, r request) {
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = c.Read(make([]byte, 1)) // until the parent ends the request
		cancel()
	}()
	switch r.Do {
	case doRun:
		run(ctx, m, c)
	case doButton:
		_ = send(c, answer{Failure: inner(m.RequestStop(ctx))}, nil)
	case doDial:
		conn, err := m.Dial(ctx, r.Port)
		if err != nil {
			_ = send(c, answer{Failure: inner(err)}, nil)
			return
		}
		pass(c, conn)
	case doListen:
		l, err := m.Listen(r.Port)
		if send(c, answer{Failure: inner(err)}, nil) != nil || err != nil {
			return
		}
		go func() {
			for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
				pass(c, conn)
			}
			cancel() // the machine has ended
		}()
		<-ctx.Done()
		_ = l.Close()
	}
}

// run starts the machine, and tells of each change until it has ended.
func run(ctx context.Context, m vm.Machine, c *net.UnixConn) {
	go m.Start(ctx) // its error is the machine's too
	for told := (answer{State: vm.Stopped}); !told.Over; {
		over := false
		select {
		case <-m.Done():
			over = true
		case <-time.After(followEvery):
		}
		now := answer{Over: over, State: m.State(), Warnings: m.Warnings(), Failure: newFailure(m.Err())}
		if over || now.State != told.State || !slices.Equal(now.Warnings, told.Warnings) {
			if send(c, now, nil) != nil {
				return
			}
			told = now
		}
	}
}

// pass gives a connection to the parent. Afterwards it is the parent's alone.
func pass(c *net.UnixConn, conn net.Conn) {
	defer conn.Close()
	socket := conn.(vm.Conn)
	f, err := socket.File()
	if err != nil {
		_ = send(c, answer{Failure: newFailure(err)}, nil)
		return
	}
	defer f.Close()
	_ = send(c, answer{HostPort: socket.HostPort, GuestPort: socket.GuestPort}, f) // fails if the parent no longer wants it
}

// inner leaves out what vm.Base adds to errors, since that of the parent adds it too.
func inner(err error) *failure { return newFailure(cmp.Or(errors.Unwrap(err), err)) }
