// Package enginetest is the conformance suite of execution backends.
//
// # To add a backend
//
// Implement engine.Sandbox, usually with an engine.Live. Then write one test:
//
//	func TestBackend(t *testing.T) {
//		enginetest.Run(t, enginetest.Suite{
//			Name:    "mine",
//			Sandbox: mine.New(),
//			Root:    t.TempDir(), // a folder that the backend's commands may write to, as they name it
//			Audited: mine.records,
//		})
//	}
//
// The suite uses only the backend's interface: it writes and reads files with
// commands, so Root may be on another computer. Commands need a POSIX shell and
// cat, cksum, cmp, find, head, ln, mkdir, mv, printf, rm, sleep, stat, tail, touch
// and wc, all of which busybox has.
//
// A failure says what was promised and what happened. What a backend cannot do
// goes into Suite.Lacks with the reason. It is tried nevertheless and reported as
// lacking; if it works, the suite demands that it is taken off the list. The eight
// scenarios of Kairo's contract cannot be lacking.
//
// Outside of go test, Check does the same and returns a Report.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"osaurus-sandbox/engine"
)

// Suite is a backend, and what the scenarios must know of it.
type Suite struct {
	Name    string
	Sandbox engine.Sandbox

	// Root is an existing folder that commands may write in, as they name it.
	// Every scenario works in a new folder below it, and removes that again.
	Root string

	// Audited says whether the backend's record has a command of this tenant. Nil
	// is a backend without a record, which lacks TenantIsAudited.
	Audited func(context.Context, engine.Tenant) (bool, error)

	// Lacks names the scenarios that the backend cannot pass by its nature, with
	// the reason.
	Lacks map[string]string

	// soon is another value for soon: tests of backends that hang need not wait
	// as long as for one that is slow.
	soon time.Duration
}

// testingT is what Run needs of *testing.T: this package is part of programs, and
// they have no use for package testing.
type testingT[T any] interface {
	Run(name string, f func(T)) bool
	Context() context.Context
	Helper()
	Fatal(args ...any)
	Log(args ...any)
	Skip(args ...any)
}

// Run runs every scenario as a subtest of t, one after the other. What the
// backend lacks is a skipped test whose message says so.
func Run[T testingT[T]](t T, suite Suite) {
	t.Helper()
	if err := suite.check(); err != nil {
		t.Fatal(err)
	}
	for _, scenario := range Scenarios() {
		t.Run(scenario.Name, func(t T) {
			t.Helper()
			result := scenario.run(t.Context(), suite)
			switch result.Outcome {
			case Failed:
				t.Fatal("promised: " + result.Promise + "\nseen: " + result.Detail)
			case Lacking:
				t.Skip("LACKING in " + suite.Name + ": " + result.Promise + "\nbecause: " + result.Detail)
			}
			t.Log(result.Promise)
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
	known := map[string]Scenario{}
	for _, scenario := range Scenarios() {
		known[scenario.Name] = scenario
	}
	for _, name := range slices.Sorted(maps.Keys(s.Lacks)) {
		switch scenario, ok := known[name]; {
		case !ok:
			return fmt.Errorf("the suite lacks %q, which is no scenario", name)
		case scenario.Kairo:
			return fmt.Errorf("%s is one of the eight that every backend must pass: it cannot be lacking", name)
		case s.Lacks[name] == "":
			return fmt.Errorf("the suite lacks %s without a reason", name)
		}
	}
	return nil
}
