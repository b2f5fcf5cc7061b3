package vmtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vmtest/guestport"
)

// BootTimeout bounds the boot of a guest and each of its commands, on a busy host.
const BootTimeout = 3 * time.Minute

// Guest is a machine that runs the test guest.
type Guest struct {
	vm.Machine
	Config vm.Config
	t      testing.TB
}

// Config returns the configuration of a small machine with an image.
func (i Image) Config(t testing.TB) vm.Config {
	return vm.Config{
		Name: "vmtest", Arch: i.Arch, CPUs: 2, Memory: 512 << 20,
		Kernel: i.Kernel, Initrd: i.Initrd,
		ConsoleLog: filepath.Join(t.TempDir(), "console.log"),
	}
}

// New returns a machine that is not started. When the test ends, it closes the machine, and logs the
// console if the test has failed.
func New(t testing.TB, d vm.Driver, cfg vm.Config) *Guest {
	t.Helper()
	m, err := d.New(t.Context(), cfg)
	if err != nil {
		t.Fatalf("New: %v (%s)", err, fault.AdviceOf(err))
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if t.Failed() && cfg.ConsoleLog != "" {
			b, _ := os.ReadFile(cfg.ConsoleLog)
			t.Logf("console of %s:\n%s", cfg.Name, b[max(0, len(b)-4<<10):])
		}
	})
	return &Guest{m, cfg, t}
}

// Boot starts a machine and waits until its guest is ready.
func Boot(t testing.TB, d vm.Driver, cfg vm.Config) *Guest {
	t.Helper()
	g := New(t, d, cfg)
	g.Boot()
	return g
}

// Boot starts a machine returned by New and waits until its guest is ready.
func (g *Guest) Boot() {
	g.t.Helper()
	if err := g.Start(g.t.Context()); err != nil {
		g.t.Fatalf("Start: %v (%s)", err, fault.AdviceOf(err))
	}
	g.Must("cmdline")
}

// Call runs a command of the test guest and returns its answer.
func (g *Guest) Call(words ...any) (string, error) {
	ctx, cancel := context.WithTimeout(g.t.Context(), BootTimeout)
	defer cancel()
	c, err := g.Dial(ctx, guestport.Control)
	for errors.Is(err, errRefused) && ctx.Err() == nil {
		// The guest has a vsock driver but does not listen yet.
		time.Sleep(10 * time.Millisecond)
		c, err = g.Dial(ctx, guestport.Control)
	}
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(BootTimeout)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(c, words...); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadBytes('\n')
	if err != nil {
		return "", err
	}
	var reply struct{ V, Err string }
	if err := json.Unmarshal(line, &reply); err != nil {
		return "", err
	}
	if reply.Err != "" {
		return reply.V, errors.New(reply.Err)
	}
	return reply.V, nil
}

// Must is Call for commands that must succeed.
func (g *Guest) Must(words ...any) string {
	g.t.Helper()
	answer, err := g.Call(words...)
	if err != nil {
		g.t.Fatalf("guest: %v: %v", words, err)
	}
	return answer
}

// PowerOff asks the guest to power off. It is an argument for vm.Shutdown.
func (g *Guest) PowerOff(context.Context) error { return g.tell("poweroff") }

// tell runs a command that ends the guest before it answers.
func (g *Guest) tell(command string) error {
	c, err := g.Dial(g.t.Context(), guestport.Control)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintln(c, command); err != nil {
		return err
	}
	// Wait: the connection's end could overtake the command.
	_, _ = c.Read(make([]byte, 1))
	return nil
}

// end waits for the machine's end.
func (g *Guest) end(within time.Duration) {
	g.t.Helper()
	select {
	case <-g.Done():
	case <-time.After(within):
		g.t.Fatalf("the machine has not ended in %v: %s", within, g.State())
	}
}
