package qmp

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Event is an event that QEMU sends.
type Event struct {
	Name string
	Data json.RawMessage // an object, or nil
}

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
	Return   json.RawMessage `json:"return"`
	Error    *Error          `json:"error"`
}

func parse(line []byte) (message, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return message{}, fmt.Errorf("bad message: %w", err)
	}
	kinds := 0
	for _, is := range []bool{m.Greeting != nil, m.Event != "", m.Return != nil || m.Error != nil} {
		if is {
			kinds++
		}
	}
	if kinds != 1 || m.Return != nil && m.Error != nil {
		return message{}, errors.New("message is not a greeting, event, result or error")
	}
	return m, nil
}

// request is a line to QEMU.
type request struct {
	Execute string `json:"execute"`
	ID      uint64 `json:"id"`
}
