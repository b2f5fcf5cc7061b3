package tools

import (
	"bytes"
	"encoding/json"
	"maps"

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

// redactedJSON returns a value as JSON with its texts redacted. It keeps everything else,
// including the order of keys.
func redactedJSON(v any, redact Redact) any {
	raw, err := printable.JSON(v)
	if err != nil {
		return fail("", fault.New(fault.Execution, "write result", "", err))
	}
	var out bytes.Buffer
	for rest := raw; ; {
		at := bytes.IndexByte(rest, '"')
		if at < 0 {
			out.Write(rest)
			return json.RawMessage(out.Bytes())
		}
		end := at + quotedLength(rest[at:])
		out.Write(rest[:at])
		out.Write(redactedText(rest[at:end], bytes.HasPrefix(rest[end:], []byte(":")), redact))
		rest = rest[end:]
	}
}

// redactedText redacts a JSON string unless it is a key.
func redactedText(quoted []byte, key bool, redact Redact) []byte {
	var text string
	if key || json.Unmarshal(quoted, &text) != nil {
		return quoted
	}
	out, err := printable.JSON(redact(text))
	if err != nil {
		return []byte(`""`) // rather than the secret
	}
	return out
}

// quotedLength returns the length of the string at the start of a JSON text.
func quotedLength(text []byte) int {
	for end := 1; ; {
		at := bytes.IndexByte(text[end:], '"')
		if at < 0 {
			return len(text)
		}
		end += at + 1
		before := text[1 : end-1]
		if backslashes := len(before) - len(bytes.TrimRight(before, `\`)); backslashes%2 == 0 {
			return end
		}
	}
}
