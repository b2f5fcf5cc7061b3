package tools

import (
	"fmt"
	"maps"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// Envelope is the answer of a call. Its JSON begins with "ok", and the other keys
// are sorted, so that the same answer is always the same text.
type Envelope struct {
	Tool     Name
	Result   any // of a call that went well
	Warnings []string
	Failure  *Failure // of one that did not
}

// OK reports whether the call went well.
func (e Envelope) OK() bool { return e.Failure == nil }

// Text is the envelope as a model reads it: JSON without the escapes that only
// HTML needs.
func (e Envelope) Text() string {
	text, err := e.MarshalJSON()
	if err != nil {
		return fail(e.Tool, fault.New(fault.Execution, "write result", string(e.Tool), err)).Text()
	}
	return string(text)
}

// MarshalJSON writes the envelope. What a failure has more to say does not
// overwrite what every failure says.
func (e Envelope) MarshalJSON() ([]byte, error) {
	members := map[string]any{}
	if f := e.Failure; f != nil {
		maps.Copy(members, f.More)
		for _, reserved := range []string{"ok", "field", "expected", "tool"} {
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
		if len(e.Warnings) > 0 {
			members["warnings"] = e.Warnings
		}
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

// fail is the envelope of a call that failed.
func fail(tool Name, err error) Envelope {
	return Envelope{Tool: tool, Failure: failureOf(err)}
}

// noSuchTool is the answer to a name that is no tool's. It suggests none: a model
// shall look at its list, and not guess again.
func noSuchTool(name string) Envelope {
	const shown = 128 // no tool's name is longer
	return Envelope{Failure: &Failure{
		Kind: fault.ToolNotFound, Message: "there is no tool " + quoted(name[:min(len(name), shown)]) + ". Call one of those that are listed.",
	}}
}
