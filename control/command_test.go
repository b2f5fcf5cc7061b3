package control

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/internal/fault"
)

func TestCheckCommand(t *testing.T) {
	if err := checkCommand([]string{"A=", "B=1=2"}, nil, durationpb.New(time.Hour)); err != nil {
		t.Error(err)
	}
	for _, env := range []string{"PATH", "=x", ""} {
		if err := checkCommand([]string{env}); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%q: %v", env, err)
		}
	}
	if err := checkCommand(nil, durationpb.New(-1)); fault.KindOf(err) != fault.InvalidArgs {
		t.Error(err)
	}
}

func TestToolSummary(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"command":"[ -d src ]"}`:             "[ -d src ]",
		`{"packages":["jq","curl"],"x":1}`:     "jq curl",
		`{"mount":"app","summary":"it is so"}`: "mount=app summary=it is so",
		`["no object"]`:                        "",
	} {
		if got := toolSummary(arguments); got != want {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
}
