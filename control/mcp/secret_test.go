package mcp_test

import (
	"strings"
	"testing"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/supervisor/hosttest"
)

// A secret is asked for by a prompt on this computer, once. The app, though it could show a form, is
// neither asked nor told the value.
func TestS06SecretsAreNotElicited(t *testing.T) {
	const value = "canary-2b9f41"
	w := newWorld(t, &hosttest.Backend{})
	w.configure("secrets", "file")
	a := w.open("an app", w.piped())
	w.set("an-app", "autonomousExec.enabled", "true")
	said := make(chan string, 1)
	go func() {
		text, err := a.call(t.Context(), "sandbox_secret_set", map[string]any{"key": "TOKEN", "description": "for a test", "instructions": "type it"})
		if err != nil {
			t.Error(err)
		}
		said <- text
	}()
	w.do(func(c *control.Client) error {
		watch, err := c.Prompts.Watch(t.Context(), &controlpb.WatchPromptsRequest{})
		if err != nil {
			return err
		}
		defer watch.Close()
		for watch.Receive() {
			for _, p := range watch.Msg().Prompts {
				if p.Secret != "TOKEN" {
					continue
				}
				for i, taken := range []bool{true, false} {
					r, err := c.Prompts.Answer(t.Context(), &controlpb.AnswerPromptRequest{Id: p.Id, Value: value})
					if (err == nil && r.Taken) != taken {
						t.Errorf("answer %d: %v, %v", i, r, err)
					}
				}
				return nil
			}
		}
		return watch.Err()
	})
	if text := <-said; !strings.Contains(text, "TOKEN") || strings.Contains(text, value) {
		t.Errorf("the app got %s", text)
	}
	for len(a.progress) > 0 {
		if text := <-a.progress; strings.Contains(text, value) {
			t.Errorf("the app is told %s", text)
		}
	}
}
