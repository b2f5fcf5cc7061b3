package bridge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// chat asks a model.
func chat(c *call) error {
	var in struct {
		Model    string   `json:"model"`
		Messages messages `json:"messages"`
		Stream   bool     `json:"stream"`
	}
	if err := c.members(&in, "messages"); err != nil {
		return err
	}
	question := Chat{Model: cmp.Or(in.Model, "default")}
	for _, text := range in.Messages {
		var m struct{ Role, Content *string }
		if json.Unmarshal(text, &m) == nil && m.Role != nil && m.Content != nil { // others are left out, as others' shims expect
			question.Messages = append(question.Messages, ChatMessage{Role: *m.Role, Content: *m.Content})
		}
	}
	if len(question.Messages) == 0 {
		return fault.Newf(fault.InvalidArgs, "read body", "messages", "none has a role and a content").Advise(`Send at least {"role":"user","content":"…"}.`)
	}
	service := c.server.Services.Inference
	if service == nil {
		return absent("inference")
	}
	if err := c.accept(ofInference); err != nil {
		return err
	}
	if in.Stream {
		return c.stream(func(tell func(string) error) error {
			_, err := service.Chat(c.r.Context(), c.who, question, tell)
			return err
		})
	}
	answer, err := service.Chat(c.r.Context(), c.who, question, nil)
	if err != nil {
		return err
	}
	return c.answer(wire.Answer{Content: answer})
}

// stream answers in parts. An error before the first is an answer like any
// other; a later one is the last part.
func (c *call) stream(do func(tell func(part string) error) error) error {
	begin := func() {
		if !c.answered {
			c.answered = true
			c.w.Header().Set("Content-Type", "text/event-stream")
			c.w.Header().Set("Cache-Control", "no-cache")
		}
	}
	part := func(text []byte) error {
		begin()
		c.hurry()
		if _, err := fmt.Fprintf(c.w, "data: %s\n\n", text); err != nil {
			return err
		}
		return http.NewResponseController(c.w).Flush()
	}
	err := do(func(content string) error {
		text, err := printable.JSON(wire.Answer{Content: content})
		if err != nil {
			return err
		}
		return part(text)
	})
	switch {
	case err == nil:
		return part([]byte(wire.Done))
	case !c.answered || c.left():
		return err
	}
	text, err := printable.JSON(c.failure(err))
	if err != nil {
		return err
	}
	return part(text)
}
