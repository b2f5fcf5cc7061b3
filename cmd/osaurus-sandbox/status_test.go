package main

import (
	"bytes"
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
