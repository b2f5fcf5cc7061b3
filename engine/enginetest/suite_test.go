package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// Each trick does something where nothing forbids it, or it would prove nothing.
func TestTricksAreTricks(t *testing.T) {
	// What these do is forbidden to any command of the backend that they are tried
	// on here, or needs programs and rights that not every computer has.
	elsewhere := map[string]bool{
		"attribute": true, "flag": true, "remount": true, "bind mount": true,
		"own namespace": true, "own namespace, root": true, "chroot": true,
	}
	suite := Suite{Name: "any", Sandbox: honest(t), Root: t.TempDir()}
	for name, trick := range readOnlyTrials {
		if elsewhere[name] {
			continue
		}
		s := Scenario{Name: name, try: func(ctx context.Context, t *trial) error {
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
		if result := s.run(t.Context(), suite); result.Outcome != Passed {
			t.Errorf("%s: %s", name, result.Detail)
		}
	}
}

// unable is a backend that cannot do anything.
type unable struct{}

func (unable) Start(context.Context, engine.Request) (engine.Handle, error) {
	return nil, fault.Newf(fault.Unavailable, "start", "", "there is nothing here")
}

func TestSuiteIsChecked(t *testing.T) {
	good := Suite{Name: "good", Sandbox: unable{}, Root: "/work"}
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
		if _, err := Check(t.Context(), suite, nil); err == nil {
			t.Errorf("%s: the suite is run", name)
		}
	}
}

func TestReport(t *testing.T) {
	suite := Suite{Name: "broken", Sandbox: unable{}, Root: "/work", Lacks: map[string]string{"HundredStarts": "it has no room"}}
	var text bytes.Buffer
	report, err := Check(t.Context(), suite, func(r Result) {
		if err := r.Print(&text); err != nil {
			t.Error(err)
		}
	})
	if err != nil || report.OK() || report.Passed != 0 || report.Lacking != 1 || report.Failed != len(Scenarios())-1 {
		t.Errorf("%v, %d passed, %d failed, %d lacking, OK %v", err, report.Passed, report.Failed, report.Lacking, report.OK())
	}
	if err := report.PrintTotal(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"FAILED   TimeoutKills (0.0 s)\n         promised: at its timeout",
		"seen: make a folder to work in: start",
		"LACKING  HundredStarts (0.0 s)\n",
		"because: it has no room",
		"broken does NOT keep the contract: 0 passed,",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	var decoded Report
	data, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &decoded); err != nil || len(decoded.Results) != len(Scenarios()) || decoded.Results[0].Outcome != Failed {
		t.Errorf("as JSON: %v, %s", err, data)
	}
}

func TestLackThatWorksIsAFailure(t *testing.T) {
	scenario := Scenario{Name: "Works", try: func(context.Context, *trial) error { return nil }}
	result := scenario.run(t.Context(), Suite{Sandbox: honest(t), Root: t.TempDir(), Lacks: map[string]string{"Works": "we thought not"}})
	if result.Outcome != Failed || !strings.Contains(result.Detail, "take it off") {
		t.Errorf("%+v", result)
	}
}

func TestCheckEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if report, err := Check(ctx, Suite{Name: "any", Sandbox: unable{}, Root: "/work"}, nil); err == nil || len(report.Results) > 0 {
		t.Errorf("%v, %d results", err, len(report.Results))
	}
}

func TestTheEightAreFirst(t *testing.T) {
	for i, s := range Scenarios() {
		if s.Kairo != (i < 8) {
			t.Errorf("%s is number %d, one of the eight: %v", s.Name, i+1, s.Kairo)
		}
	}
}
