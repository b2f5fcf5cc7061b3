package vmtest

import (
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/vm"
)

// errRefused is what a dial to a port without a listener has in its chain.
const errRefused = syscall.ECONNREFUSED

// soon is far more than anything needs that does not wait for a guest.
const soon = 30 * time.Second

// Suite is a driver under test.
type Suite struct {
	Driver vm.Driver
	Arch   vm.Arch
	// HostFromGuest is the address at which a guest behind NetworkNAT reaches
	// this host's loopback; empty where it does not.
	HostFromGuest string
	// Lasting are functions of a module that goroutines stay in for ever, by a
	// flaw that the driver cannot repair: "net.(*Listener).Accept".
	Lasting []string
}

// run is one pass of the suite.
type run struct {
	Suite
	image Image
	caps  vm.Capabilities
}

// Run checks everything that package vm's comments promise.
func Run(t *testing.T, s Suite) {
	if s.Driver.Name() == "" {
		t.Error("the driver has no name")
	}
	caps, err := s.Driver.Capabilities(t.Context(), s.Arch)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s runs %s under %s", s.Driver.Name(), s.Arch, caps.Accelerator)
	r := &run{s, BuildImage(t, s.Arch), caps}
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"Capabilities", r.testCapabilities},
		{"Config", r.testConfig},
		{"NotStarted", r.testNotStarted},
		{"BeforeTheGuestIsUp", r.testBeforeTheGuestIsUp},
		{"Running", r.testRunning},
		{"TwoMachines", r.testTwoMachines},
		{"PowerButton", r.testPowerButton},
	} {
		t.Run(part.name, func(t *testing.T) {
			leaks := r.watchLeaks(t)
			t.Run("machine", part.test) // ends when its machines are closed
			leaks.check(t)
		})
	}
}
