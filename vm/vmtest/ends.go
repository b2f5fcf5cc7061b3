package vmtest

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vmtest/guestport"
)

// testBeforeTheGuestIsUp checks the end of machines whose guest has not booted.
func (r *run) testBeforeTheGuestIsUp(t *testing.T) {
	t.Run("Kill", func(t *testing.T) {
		cfg := r.image.Config(t)
		cfg.KernelArgs = []string{guestport.NeverUp}
		g := New(t, r.Driver, cfg)
		l, err := g.Listen(guestport.RelayBack)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := g.State(); s != vm.Running {
			t.Errorf("a started machine is %s", s)
		}
		rejected(t, "second Start", g.Start(t.Context()))

		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := g.Dial(short, guestport.Echo); fault.KindOf(err) != fault.Timeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial before the guest is up = %v, want a timeout", err)
		}
		dialled, accepted := make(chan error), make(chan error)
		go func() { _, err := g.Dial(context.Background(), guestport.Echo); dialled <- err }()
		go func() { _, err := l.Accept(); accepted <- err }()
		time.Sleep(50 * time.Millisecond) // for both to wait
		if err := g.Kill(t.Context()); err != nil {
			t.Errorf("Kill = %v", err)
		}
		for name, waits := range map[string]<-chan error{"Dial": dialled, "Accept": accepted} {
			select {
			case err := <-waits:
				if err == nil {
					t.Errorf("%s succeeds when the machine is killed", name)
				}
			case <-time.After(soon):
				t.Fatalf("%s does not return when the machine is killed", name)
			}
		}
		r.afterwards(t, g, l)
	})
	t.Run("CloseWhileStarting", func(t *testing.T) {
		for after := range 6 {
			g := New(t, r.Driver, r.image.Config(t))
			started := make(chan error)
			go func() { started <- g.Start(t.Context()) }()
			time.Sleep(time.Duration(after) * 10 * time.Millisecond)
			if err := g.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
			if err := <-started; err != nil && fault.KindOf(err) != fault.Rejected {
				t.Errorf("Start of a machine that is closed = %v, want rejected", err)
			}
			r.afterwards(t, g, nil)
		}
	})
	t.Run("StartCancelled", func(t *testing.T) {
		g := New(t, r.Driver, r.image.Config(t))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Start(ctx); err == nil {
			t.Error("Start succeeds with a context that has ended")
		}
		g.end(soon)
		if g.State() != vm.Failed || g.Err() == nil {
			t.Errorf("a machine that did not start is %s: %v", g.State(), g.Err())
		}
	})
}

// testTwoMachines runs two machines at once. One panics, then the other reboots.
func (r *run) testTwoMachines(t *testing.T) {
	one, two := r.image.Config(t), r.image.Config(t)
	one.Name, two.Name = "vmtest-one", "vmtest-two"
	one.KernelArgs, two.KernelArgs = []string{"osaurus.test=one"}, []string{"osaurus.test=two"}
	two.ConsoleLog = ""
	panics, reboots := New(t, r.Driver, one), New(t, r.Driver, two)
	for _, g := range []*Guest{panics, reboots} {
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []*Guest{panics, reboots} {
		if line := g.Must("cmdline"); !strings.Contains(line, g.Config.KernelArgs[0]) {
			t.Errorf("%s's kernel was started with %q", g.Config.Name, line)
		}
	}
	if got := panics.Must("ls", "/sys/class/net"); strings.Contains(got, "eth0") {
		t.Errorf("a machine without a network has %q", got)
	}
	if !r.caps.ResetEnds {
		return
	}
	if err := panics.tell("panic"); err != nil {
		t.Fatal(err)
	}
	panics.end(soon)
	if err := panics.Err(); fault.KindOf(err) != fault.Execution || fault.AdviceOf(err) == "" || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("Err after a panic = %v, want execution_error that quotes the console", err)
	}
	if s := panics.State(); s != vm.Failed {
		t.Errorf("a machine that panicked is %s", s)
	}
	if s := reboots.State(); s != vm.Running {
		t.Errorf("after the other's end this machine is %s: %v", s, reboots.Err())
	}
	echo(t, reboots, "still here")
	if err := reboots.tell("reboot"); err != nil {
		t.Fatal(err)
	}
	r.afterwards(t, reboots, nil)
}

// testPowerButton presses the power button until the guest has powered off. A guest that ignores it
// is ended by vm.Shutdown.
func (r *run) testPowerButton(t *testing.T) {
	g := Boot(t, r.Driver, r.image.Config(t))
	_, err := g.Call("button")
	obeys := err == nil
	if obeys != (r.Arch == vm.AMD64) {
		// Debian's arm64 kernel has no driver for the button.
		t.Errorf("the guest obeys its power button: %v, %v", obeys, err)
	}
	if obeys {
		timetest.Eventually(t, "the guest powers off", func() bool { return g.RequestStop(t.Context()) != nil })
	} else if err := vm.Shutdown(t.Context(), g, soon, func(context.Context) error { return errors.New("not delivered") }); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	r.afterwards(t, g, nil)
}

// echo checks that a connection into the guest works.
func echo(t *testing.T, g *Guest, text string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	c, err := g.Dial(ctx, guestport.Echo)
	if err != nil {
		t.Fatalf("dial the guest's echo: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	echoOver(t, c, text)
	return c
}

func echoOver(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatalf("write to the guest's echo: %v", err)
	}
	b := make([]byte, len(text))
	for n := 0; n < len(b); {
		k, err := c.Read(b[n:])
		if err != nil {
			t.Fatalf("read from the guest's echo: %v", err)
		}
		n += k
	}
	if string(b) != text {
		t.Errorf("the echo of %q is %q", text, b)
	}
}
