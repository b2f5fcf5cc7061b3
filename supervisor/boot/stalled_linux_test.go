package boot_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
)

// A boot whose machine is stalled by a full disk of the host fails at once and says why.
func TestStalled(t *testing.T) {
	image := lab.Image(t, lab.BusyboxPack(t, "arm64"))
	began := time.Now()
	_, err := boot.Boot(t.Context(), boot.Spec{Driver: stillDriver{}, Image: image})
	if fault.KindOf(err) != fault.Execution || !strings.Contains(err.Error(), "boot guest: the disk is full") || !strings.Contains(fault.AdviceOf(err), "Free disk space") {
		t.Errorf("%s: %v (%s)", fault.KindOf(err), err, fault.AdviceOf(err))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// stillDriver makes machines that are stalled from the start.
type stillDriver struct{ vm.Driver }

func (stillDriver) New(context.Context, vm.Config) (vm.Machine, error) { return stillMachine{}, nil }

type stillMachine struct{ vm.Machine }

func (stillMachine) Start(context.Context) error { return nil }
func (stillMachine) Close() error                { return nil }
func (stillMachine) Done() <-chan struct{}       { return nil }
func (stillMachine) Stalled() error {
	return fault.Newf(fault.Unavailable, "", "", "the disk is full")
}

func (stillMachine) Dial(ctx context.Context, _ uint32) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
