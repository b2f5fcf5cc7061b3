package enginetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/engine"
)

// Each trick must work where nothing forbids it, or it would prove nothing.
func TestTricksAreTricks(t *testing.T) {
	// These are always forbidden by the engine that is used here, or need programs and
	// rights that not every computer has.
	elsewhere := map[string]bool{
		"attribute": true, "flag": true, "remount": true, "bind mount": true,
		"own namespace": true, "own namespace, root": true, "chroot": true,
	}
	suite := Suite{Name: "any", Sandbox: honest(t, new(sync.Map)), Root: t.TempDir()}
	for name, trick := range readOnlyTrials {
		if elsewhere[name] {
			continue
		}
		s := scenario{name: name, try: func(ctx context.Context, t *trial) error {
			req := t.line(readOnlyFolder + `
state() { (` + readOnlyState + `); }
before=$(state)
(cd ws; T=$(mktemp -d); W=$PWD; export T W
` + trick + `
)
[ "$before" != "$(state)" ]`)
			got, err := t.finish(ctx, req)
			if err == nil && got.Exit.Code != 0 {
				err = errors.New(trick + " changes nothing: " + string(got.Stderr))
			}
			return err
		}}
		if outcome, detail := s.run(t.Context(), suite); outcome != passed {
			t.Errorf("%s: %s", name, detail)
		}
	}
}

func TestSuiteIsChecked(t *testing.T) {
	good := Suite{Name: "good", Sandbox: engine.NewSandbox(careless), Root: "/work"}
	for name, edit := range map[string]func(*Suite){
		"no name":            func(s *Suite) { s.Name = "" },
		"no sandbox":         func(s *Suite) { s.Sandbox = nil },
		"no folder":          func(s *Suite) { s.Root = "" },
		"unknown lack":       func(s *Suite) { s.Lacks = map[string]string{"Flying": "no wings"} },
		"lack without why":   func(s *Suite) { s.Lacks = map[string]string{"SlowReader": ""} },
		"lack of the eight":  func(s *Suite) { s.Lacks = map[string]string{"TimeoutKills": "no clock"} },
		"lack of the eighth": func(s *Suite) { s.Lacks = map[string]string{"CloseReleases": "no door"} },
	} {
		suite := good
		edit(&suite)
		if suite.check() == nil {
			t.Errorf("%s: the suite is accepted", name)
		}
	}
}

func TestLackThatWorksIsAFailure(t *testing.T) {
	scenario := scenario{name: "Works", try: func(context.Context, *trial) error { return nil }}
	outcome, detail := scenario.run(t.Context(), Suite{Sandbox: honest(t, new(sync.Map)), Root: t.TempDir(), Lacks: map[string]string{"Works": "we thought not"}})
	if outcome != failed || !strings.Contains(detail, "take it off") {
		t.Errorf("%s: %s", outcome, detail)
	}
}

func TestKairosEightAreRequired(t *testing.T) {
	for i, s := range scenarios() {
		if s.required != (i < 8) {
			t.Errorf("%s is number %d, required: %v", s.name, i+1, s.required)
		}
	}
}
