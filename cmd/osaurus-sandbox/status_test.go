package main

import (
	"bytes"
	"strings"
	"testing"

	"osaurus-sandbox/control/controlpb"
)

// A program that reads what is empty finds it empty, and not absent.
func TestJSONHasWhatIsEmpty(t *testing.T) {
	var list, line bytes.Buffer
	if err := printProto(&list, &controlpb.ListAgentsResponse{}); err != nil || list.String() != "{\n  \"agents\": []\n}\n" {
		t.Errorf("%v, %s", err, list.String())
	}
	if err := printLine(&line, &controlpb.LogsResponse{Source: "daemon"}); err != nil || line.String() != `{"source":"daemon","text":"","level":""}`+"\n" {
		t.Errorf("%v, %s", err, line.String())
	}
}

func TestOneIsNoPlural(t *testing.T) {
	var out bytes.Buffer
	if err := printStatus(&out, &controlpb.Status{Commands: 1, Machine: &controlpb.Machine{Cpus: 1}}); err != nil || !strings.Contains(out.String(), "1 command\n") || !strings.Contains(out.String(), "1 processor,") {
		t.Errorf("%v\n%s", err, &out)
	}
	for n, want := range []string{"0 entries", "1 entry", "2 entries"} {
		if got := plural(n, "entry"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
