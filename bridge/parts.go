package bridge

import (
	"encoding/json"

	"osaurus-sandbox/internal/fault"
)

const (
	// maxMembers is how many members a body may have: a recipe has 15, and no tool more
	// than 64 arguments. Each that is read costs many times what it takes to send.
	maxMembers = 256
	// maxMessages is how many messages a chat may have: in a body of 8 MiB as many of 800
	// bytes, and models forget long before that.
	maxMessages = 10_000
)

// exceeds reports whether valid JSON is an object or an array, whichever opens so, of more
// than so many parts. It allocates nothing.
func exceeds(text []byte, open byte, most int) bool {
	depth, commas, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++ // what it escapes ends nothing
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth == 1 && b != open {
				return false
			}
		case b == '}' || b == ']':
			depth--
		case b == ',' && depth == 1:
			if commas++; commas == most {
				return true
			}
		}
	}
	return false
}

// messages are those of a chat, not looked at yet.
type messages []json.RawMessage

// UnmarshalJSON counts them before it keeps any.
func (m *messages) UnmarshalJSON(text []byte) error {
	if exceeds(text, '[', maxMessages) {
		return fault.Newf(fault.InvalidArgs, "read body", "messages", "there are more than %d", maxMessages).
			Advise("Send fewer: leave out the oldest, or sum them up in one.")
	}
	return json.Unmarshal(text, (*[]json.RawMessage)(m))
}
