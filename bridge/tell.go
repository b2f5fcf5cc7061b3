package bridge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"osaurus-sandbox/bridge/wire"
)

// emit tells an event.
func emit(c *call) error {
	var in wire.Emit
	if err := c.members(&in, "type"); err != nil {
		return err
	}
	topic, err := ParseTopic(in.Type)
	if err != nil {
		return err
	}
	service := c.server.Services.Events
	if service == nil {
		return absent("events")
	}
	payload := bytes.NewBufferString("")
	if len(in.Payload) == 0 {
		in.Payload = json.RawMessage("{}")
	}
	if err := json.Compact(payload, in.Payload); err != nil {
		return err
	}
	if err := c.accept(ofHTTP); err != nil {
		return err
	}
	if err := service.Emit(c.r.Context(), c.who, topic, payload.Bytes()); err != nil {
		return err
	}
	return c.answer(empty{})
}

// appendLine takes a line for the log.
func appendLine(c *call) error {
	var in wire.Line
	if err := c.members(&in, "message"); err != nil {
		return err
	}
	level, err := ParseLevel(strings.ToLower(cmp.Or(in.Level, string(Info))))
	if err != nil {
		return err
	}
	service := c.server.Services.Log
	if service == nil {
		return absent("log")
	}
	if err := c.accept(ofLog); err != nil {
		return err
	}
	if err := service.Append(c.r.Context(), c.who, level, in.Message); err != nil {
		return err
	}
	return c.answer(empty{})
}
