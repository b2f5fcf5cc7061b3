package vmtest

import (
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/vm"
)

// errRefused is wrapped by the error of a dial to a port without a listener.
const errRefused = syscall.ECONNREFUSED

// soon bounds operations that do not wait for a guest's boot.
const soon = 30 * time.Second

// Suite is a driver under test.
type Suite struct {
	Driver vm.Driver
	Arch   vm.Arch
}

// run is one pass of the suite.
type run struct {
	Suite
	image Image
	caps  vm.Capabilities
}

// Run checks that the driver does what package vm's comments say.
func Run(t *testing.T, s Suite) {
	caps, err := s.Driver.Capabilities(t.Context(), s.Arch)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s under %s", s.Arch, caps.Accelerator)
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
			leaks := watchLeaks(t)
			t.Run("machine", part.test) // ends when its machines are closed
			leaks.check(t)
		})
	}
}
