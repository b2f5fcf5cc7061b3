// Package enginetest is the conformance suite of engines: Run checks the execution SPI, RunRoom checks rooms.
//
// To test an engine, write one test:
//
//	func TestEngine(t *testing.T) {
//		enginetest.Run(t, enginetest.Suite{
//			Name:    "mine",
//			Sandbox: engine.NewSandbox(mine.exec),
//			Root:    t.TempDir(), // a folder that commands may write to, as they name it
//			Audited: mine.records,
//		})
//	}
//
// The suite reads and writes files with commands only, so Root may be on another
// computer. Commands need a POSIX shell and cat, cksum, cmp, find, head, ln, mkdir,
// mv, printf, rm, sleep, stat, tail, touch and wc. Busybox has them all.
//
// What an engine cannot do goes into Suite.Lacks with the reason. It is tried
// nevertheless: if it works, the test fails until it is taken off the list. The
// eight scenarios of Kairo's contract are required.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"osaurus-sandbox/engine"
)

// Suite describes an engine.
type Suite struct {
	Name    string
	Sandbox engine.Sandbox

	// Root is an existing folder that commands may write to, as they name it.
	// Every scenario works in a new folder below it, which it removes.
	Root string

	// Audited reports whether the engine has recorded a command of this tenant. Nil
	// is an engine without records, which lacks TenantIsAudited.
	Audited func(context.Context, engine.Tenant) (bool, error)

	// Lacks names the scenarios that the engine cannot pass by its nature, with
	// the reason.
	Lacks map[string]string

	// soon replaces the constant soon, so that tests of engines that hang take less time.
	soon time.Duration
}

// Run runs every scenario as a subtest of t, one after the other. What the
// engine lacks is skipped, with the reason.
func Run(t *testing.T, suite Suite) {
	t.Helper()
	if err := suite.check(); err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Helper()
			switch outcome, detail := s.run(t.Context(), suite); outcome {
			case failed:
				t.Fatal("promised: " + s.promise + "\nseen: " + detail)
			case lacking:
				t.Skip("LACKING in " + suite.Name + ": " + s.promise + "\nbecause: " + detail)
			}
		})
	}
}

// check refuses a suite that would prove nothing, or something else.
func (s Suite) check() error {
	switch {
	case s.Name == "":
		return errors.New("the suite has no name")
	case s.Sandbox == nil:
		return errors.New("the suite has no sandbox")
	case s.Root == "":
		return errors.New("the suite has no folder to work in")
	}
	known := map[string]scenario{}
	for _, s := range scenarios() {
		known[s.name] = s
	}
	for _, name := range slices.Sorted(maps.Keys(s.Lacks)) {
		switch scenario, ok := known[name]; {
		case !ok:
			return fmt.Errorf("the suite lacks %q, which is no scenario", name)
		case scenario.required:
			return fmt.Errorf("%s is required", name)
		case s.Lacks[name] == "":
			return fmt.Errorf("the suite lacks %s without a reason", name)
		}
	}
	return nil
}
