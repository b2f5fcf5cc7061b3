package bridge

import (
	"encoding/json"
	"fmt"
	"net/http"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

func chat(c *call) error {
	var in struct {
		Model    string   `json:"model"`
		Messages messages `json:"messages"`
		Stream   bool     `json:"stream"`
	}
	if err := c.decode(&in, "messages"); err != nil {
		return err
	}
	question := Chat{Model: in.Model}
	for _, text := range in.Messages {
		var m struct{ Role, Content *string }
		if json.Unmarshal(text, &m) == nil && m.Role != nil && m.Content != nil { // ignore other members, as client libraries expect
			question.Messages = append(question.Messages, ChatMessage{Role: *m.Role, Content: *m.Content})
		}
	}
	if len(question.Messages) == 0 {
		return fault.Newf(fault.InvalidArgs, "read body", "messages", "none has a role and a content").Advise(`Send at least {"role":"user","content":"…"}.`)
	}
	if err := c.accept(config.InferenceCalls); err != nil {
		return err
	}
	service := c.server.Services.Inference
	if !in.Stream {
		answer, err := service.Chat(c.r.Context(), c.who, question, nil)
		return c.answer(wire.Answer{Content: answer}, err)
	}
	_, err := service.Chat(c.r.Context(), c.who, question, func(part string) error { return c.event(wire.Answer{Content: part}) })
	switch {
	case err == nil:
		return c.writeEvent([]byte(wire.Done))
	case c.answered.Load():
		return c.event(c.failure(err))
	}
	return err
}

// event sends a part of a streamed answer.
func (c *call) event(part any) error {
	text, err := printable.JSON(part)
	if err != nil {
		return err
	}
	return c.writeEvent(text)
}

func (c *call) writeEvent(text []byte) error {
	if !c.answered.Swap(true) {
		c.w.Header().Set("Content-Type", "text/event-stream")
		c.w.Header().Set("Cache-Control", "no-cache")
	}
	c.writeDeadline()
	if _, err := fmt.Fprintf(c.w, "data: %s\n\n", text); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}
