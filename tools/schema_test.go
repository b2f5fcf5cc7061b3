package tools

import (
	"encoding/json"
	"testing"
)

// Results match the schema: clients reject others.
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
		t.Error("the schema accepts an incomplete job")
	}
}
