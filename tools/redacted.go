package tools

import (
	"bytes"
	"encoding/json"

	"osaurus-sandbox/fault"
)

// redacted is the envelope with every text in it redacted. It is done here, at
// the one way out, so that no tool can forget it.
func (e Envelope) redacted(redact Redact) Envelope {
	if e.Failure != nil {
		f := *e.Failure
		f.Message, f.Expected, f.Cause = redact(f.Message), redact(f.Expected), nil
		more, _ := redactedJSON(f.More, redact).(map[string]any)
		f.More = more
		e.Failure = &f
		return e
	}
	e.Result = redactedJSON(e.Result, redact)
	for i, w := range e.Warnings {
		e.Warnings[i] = redact(w)
	}
	return e
}

// redactedJSON is a value as JSON has it, with its texts redacted.
func redactedJSON(v any, redact Redact) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return fail("", fault.New(fault.Execution, "write result", "", err))
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var generic any
	if err := dec.Decode(&generic); err != nil {
		return fail("", fault.New(fault.Execution, "write result", "", err))
	}
	return walk(generic, redact)
}

func walk(v any, redact Redact) any {
	switch v := v.(type) {
	case string:
		return redact(v)
	case []any:
		for i := range v {
			v[i] = walk(v[i], redact)
		}
	case map[string]any:
		for key, inner := range v {
			v[key] = walk(inner, redact)
		}
	}
	return v
}
