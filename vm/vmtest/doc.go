// Package vmtest is the conformance suite of package vm: whatever promises to be a vm.Driver proves it by passing Run.
//
// To add a driver, implement vm.Driver and vm.Machine as their comments say,
// with vm.Base for state, start, end and ports, and vm.Console for the log, and write
// one test:
//
//	func TestConformance(t *testing.T) {
//		vmtest.Run(t, vmtest.Suite{Driver: mydriver.New(), Arch: vm.HostArch()})
//	}
//
// The suite boots a real kernel with testguest as its first process. What a
// driver cannot do by nature is not asked of it: its Capabilities say what
// that is. Everything else must hold, so no test is skipped by name.
//
// Boot is useful by itself: it gives any test a running machine in one line.
package vmtest
