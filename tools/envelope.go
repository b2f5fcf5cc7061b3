package tools

import (
	"fmt"
	"maps"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// Envelope is the result of a call. Its JSON has "ok" first and the other keys sorted, so equal
// results have equal text.
type Envelope struct {
	Tool     Name
	Result   any      // if the call succeeded
	Failure  *Failure // if it failed
	Warnings []string
}

// OK reports whether the call succeeded.
func (e Envelope) OK() bool { return e.Failure == nil }

// Text returns the envelope as JSON for a model, without escapes for HTML.
func (e Envelope) Text() string {
	text, err := e.MarshalJSON()
	if err != nil {
		return fail(e.Tool, fault.New(fault.Execution, "write result", string(e.Tool), err)).Text()
	}
	return string(text)
}

// MarshalJSON encodes the envelope. A failure's extra fields never replace the standard ones.
func (e Envelope) MarshalJSON() ([]byte, error) {
	members := map[string]any{}
	if f := e.Failure; f != nil {
		maps.Copy(members, f.More)
		for _, reserved := range []string{"ok", "field", "expected", "tool", "warnings"} {
			delete(members, reserved)
		}
		members["kind"], members["message"], members["retryable"] = f.Kind, f.Message, f.retryable()
		if f.Field != "" {
			members["field"] = f.Field
		}
		if f.Expected != "" {
			members["expected"] = f.Expected
		}
	} else {
		members["result"] = e.Result
	}
	if len(e.Warnings) > 0 {
		members["warnings"] = e.Warnings
	}
	if e.Tool != "" {
		members["tool"] = e.Tool
	}
	text, err := printable.JSON(members) // sorts the keys
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, `{"ok":%t,`, e.OK()), text[1:]...), nil
}

// fail returns the envelope of a failed call.
func fail(tool Name, err error) Envelope {
	return Envelope{Tool: tool, Failure: failureOf(err)}
}

// noSuchTool returns the answer to an unknown name. It suggests no other name: models should look
// at the list instead of guessing.
func noSuchTool(name string) Envelope {
	const shown = 128 // longer than any tool's name
	return Envelope{Failure: &Failure{
		Kind: fault.ToolNotFound, Message: "there is no tool " + quoted(name[:min(len(name), shown)]) + ". Call one of those that are listed.",
	}}
}
