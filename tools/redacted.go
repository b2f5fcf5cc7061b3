package tools

import (
	"encoding/json"
	"maps"
	"regexp"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// redacted returns the envelope with all its texts redacted. Every result passes through here, so
// no tool can forget it.
func (e Envelope) redacted(redact Redact) Envelope {
	if e.Failure != nil {
		f := *e.Failure
		f.Message, f.Field, f.Expected, f.Cause = redact(f.Message), redact(f.Field), redact(f.Expected), nil
		f.More = maps.Clone(f.More)
		for key, v := range f.More {
			f.More[key] = redactedJSON(v, redact)
		}
		e.Failure = &f
		return e
	}
	e.Result = redactedJSON(e.Result, redact)
	for i, w := range e.Warnings {
		e.Warnings[i] = redact(w)
	}
	return e
}

// jsonString matches a string in compact JSON, with the colon after it if it is a key.
var jsonString = regexp.MustCompile(`"(?:[^"\\]|\\.)*":?`)

// redactedJSON returns a value as JSON with its texts redacted, except keys. It keeps the order of
// keys.
func redactedJSON(v any, redact Redact) any {
	raw, err := printable.JSON(v)
	if err != nil {
		return fail("", fault.New(fault.Execution, "write result", "", err))
	}
	return json.RawMessage(jsonString.ReplaceAllFunc(raw, func(quoted []byte) []byte {
		var text string
		if quoted[len(quoted)-1] == ':' || json.Unmarshal(quoted, &text) != nil {
			return quoted
		}
		out, err := printable.JSON(redact(text))
		if err != nil {
			return []byte(`""`) // rather than the secret
		}
		return out
	}))
}
