package qmp

import (
	"encoding/json"
	"fmt"
)

// Error is QEMU's error reply to a command.
type Error struct {
	Class       string `json:"class"`
	Description string `json:"desc"`
}

func (e *Error) Error() string { return fmt.Sprintf("qemu: %s (%s)", e.Description, e.Class) }

// message is a line from QEMU: a greeting, an event, or a reply.
type message struct {
	Greeting json.RawMessage `json:"QMP"`
	Event    string          `json:"event"`
	Data     json.RawMessage `json:"data"`
	ID       *uint64         `json:"id"`
	Error    *Error          `json:"error"`
}
