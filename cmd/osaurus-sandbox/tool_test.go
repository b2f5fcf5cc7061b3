package main

import (
	"bytes"
	"strings"
	"testing"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

// The arguments of a plugin's tool may be numbers and truths to choose from.
func TestDescribeChoices(t *testing.T) {
	var out bytes.Buffer
	err := printTool(&out, &controlpb.Tool{Name: "t", InputSchema: `{"properties": {"a": {"type": "integer", "enum": [1, 20000000]}, "b": {"enum": [true]}, "c": {"enum": ["x", "y"], "description": "which"}}}`})
	for _, want := range []string{"1 | 20000000", "true", "x | y  which"} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("no %q: %s, %v", want, &out, err)
		}
	}
}

// What a tool expected is told as a sentence, whether it was one or not.
func TestExpected(t *testing.T) {
	for expected, want := range map[string]string{"a text": "Expected is: a text.", "It is short.": "Expected is: It is short."} {
		err := printEnvelope(console{err: &bytes.Buffer{}}, "t", `{"ok":false,"kind":"invalid_args","message":"no","expected":"`+expected+`"}`, false)
		if got := fault.AdviceOf(err); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// A person reads what a failed tool has written, and cannot take it for this program's words.
func TestFailedToolIsShown(t *testing.T) {
	var out, stderr strings.Builder
	err := printEnvelope(console{nil, &out, &stderr}, "git_log", `{"ok":false,"kind":"execution_error","message":"it failed with exit code 2: stderr says why","stdout":"one\n","stderr":"no\u001b[2J such\nfile"}`, false)
	if fault.KindOf(err) != fault.Execution || out.String() != "" || stderr.String() != "  | one\n  | no·[2J such\n  | file\n" {
		t.Errorf("%v, %q, %q", err, out.String(), stderr.String())
	}
}
