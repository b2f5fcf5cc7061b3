package bridge

import (
	"encoding/json"
	"errors"
	"unicode/utf8"

	"osaurus-sandbox/internal/fault"
)

const (
	// maxMembers bounds the members of a body: a recipe has 15, a tool at most 64 arguments. A
	// decoded member takes many times its size in memory.
	maxMembers = 256
	// maxMessages bounds the messages of a chat.
	maxMessages = 10_000
)

// decode decodes the body, a JSON object, into v. It fails if a required member is missing.
func (c *call) decode(v any, required ...string) error {
	const op = "read body"
	const advice = "Send a JSON object in UTF-8."
	if !utf8.Valid(c.body) {
		return fault.Newf(fault.InvalidArgs, op, "", "it is not UTF-8").Advise(advice)
	}
	if exceeds(c.body, '{', maxMembers) && json.Valid(c.body) {
		return fault.Newf(fault.InvalidArgs, op, "", "it has more than %d members", maxMembers).Advise("Send only the members of the route.")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(c.body, &members); err != nil || members == nil {
		return fault.Newf(fault.InvalidArgs, op, "", "it is not a JSON object").Advise(advice)
	}
	for _, name := range required {
		if v, ok := members[name]; !ok || string(v) == "null" {
			return fault.Newf(fault.InvalidArgs, op, name, "it is missing").Advise("Send it.")
		}
	}
	err := json.Unmarshal(c.body, v)
	if _, ours := errors.AsType[*fault.Error](err); err == nil || ours {
		return err
	}
	return fault.New(fault.InvalidArgs, op, "", err)
}

// exceeds reports whether a valid JSON object or array has more than most elements; open is its
// first byte. It allocates nothing.
func exceeds(text []byte, open byte, most int) bool {
	depth, commas, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
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

// messages are the undecoded messages of a chat.
type messages []json.RawMessage

// UnmarshalJSON refuses too many messages before it allocates any.
func (m *messages) UnmarshalJSON(text []byte) error {
	if exceeds(text, '[', maxMessages) {
		return fault.Newf(fault.InvalidArgs, "read body", "messages", "more than %d messages", maxMessages).
			Advise("Leave out the oldest, or sum them up in one.")
	}
	return json.Unmarshal(text, (*[]json.RawMessage)(m))
}
