// Package vmtest is the conformance suite of package vm: every vm.Driver must pass Run.
//
// To add a driver, implement vm.Driver and vm.Machine as their comments say, with vm.Base for state,
// start, end and ports, and vm.Console for the log. Then write one test:
//
//	func TestConformance(t *testing.T) {
//		vmtest.Run(t, vmtest.Suite{Driver: mydriver.New(), Arch: vm.HostArch()})
//	}
//
// The suite boots a real kernel with testguest as its first process. It skips only what the driver's
// Capabilities exclude.
//
// Boot gives other tests a running machine.
package vmtest
