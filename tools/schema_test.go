package tools

import (
	"encoding/json"
	"testing"
)

// What a tool answers fits the schema that it has said: clients give up what does not.
func TestSchemaOfProcess(t *testing.T) {
	schema, err := newProcess(nil).Output.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	code := 0
	for name, out := range map[string]processOut{
		"list": {Jobs: &[]jobOut{{JobID: "j", ExitCode: &code}}}, "list of none": {Jobs: &[]jobOut{}}, "poll": {jobOut: &jobOut{JobID: "j"}, LogTail: "t"},
	} {
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		var whole any
		if err := json.Unmarshal(text, &whole); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(whole); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var empty any = map[string]any{"jobs": []any{map[string]any{"job_id": "j"}}}
	if err := schema.Validate(empty); err == nil {
		t.Error("a job of a list may be anything")
	}
}

// What a list tells of a tool are its schemas, and in the lean profile only what it takes.
func TestSchemas(t *testing.T) {
	r := NewRegistry(nil, echo(Spec{Name: "echo", Lean: true}, nil))
	tool := r.List(alice().Agent, Full)[0]
	in, err := json.Marshal(tool.Input)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(tool.Output)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if input, output, err := tool.Schemas(); input != string(in) || output != string(out) || err != nil {
			t.Errorf("%s %s %v, want %s %s", input, output, err, in, out)
		}
	}
	if input, output, err := r.List(alice().Agent, Lean)[0].Schemas(); input != string(in) || output != "null" || err != nil {
		t.Errorf("lean: %s %s %v", input, output, err)
	}
}
