package inference

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// maxDocument bounds an answer that is not streamed: the text with every character escaped, and
// the JSON around it. Streams are bounded by their text and time instead.
const maxDocument = 6*maxAnswer + 1<<20

// request is the body of a chat completion request.
type request struct {
	Model         config.ModelName     `json:"model"`
	Messages      []bridge.ChatMessage `json:"messages"`
	Stream        bool                 `json:"stream"`
	StreamOptions *streamOptions       `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// response is a chat completion or a chunk of one.
type response struct {
	Choices []struct {
		Message, Delta struct {
			Content *string `json:"content"`
		}
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		TotalTokens int `json:"total_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// answer collects the answer to a question.
type answer struct {
	question
	tell func(string) error

	text     strings.Builder
	asked    atomic.Bool // the request was written
	refused  bool        // the endpoint refused it
	used     int         // tokens that the endpoint reported, or 0
	finished bool        // the model has finished
}

// bytesPerToken is an average over most languages.
const bytesPerToken = 4

// tokens returns what the chat has cost so far: the endpoint's count if it gave one, or else an
// estimate.
func (a *answer) tokens() int {
	if a.used > 0 || a.refused || !a.asked.Load() {
		return a.used
	}
	size := a.text.Len()
	for _, m := range a.messages {
		size += len(m.Content)
	}
	return size / bytesPerToken
}

// ask sends the question and reads the answer.
func (s *Service) ask(ctx context.Context, a *answer) error {
	in := request{Model: a.model, Messages: a.messages, Stream: a.stream}
	if a.stream {
		in.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return fault.New(fault.InvalidArgs, op, string(a.model), err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return a.unavailable("the endpoint's address is wrong")
	}
	r.Header.Set("Content-Type", "application/json")
	if a.key.Check() == nil {
		r.Header.Set("Authorization", "Bearer "+a.key.Reveal())
	}
	// A chat counts once it was sent, even if the caller leaves before the answer.
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(w httptrace.WroteRequestInfo) {
		a.asked.Store(w.Err == nil)
	}}))
	reply, err := s.http.Do(r)
	if err != nil {
		return a.unreachable(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		a.refused = true // set explicitly: a refusal may arrive before the request counts as written
		return a.refusal(reply)
	}
	if a.stream {
		return a.readStream(reply.Body)
	}
	return a.readWhole(reply.Body)
}

// readWhole reads an answer that is not streamed.
func (a *answer) readWhole(body io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(body, maxDocument))
	switch {
	case err != nil:
		return a.broken("it broke off")
	case len(text) == maxDocument:
		return a.broken("it is too long")
	}
	var r response
	if json.Unmarshal(text, &r) != nil || len(r.Choices) == 0 {
		return a.invalid(r, text)
	}
	a.count(r)
	if content := r.Choices[0].Message.Content; content != nil {
		return a.add(*content)
	}
	return nil
}

// readStream reads an answer of server-sent events, each with its data on one line.
func (a *answer) readStream(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // a separator, an event name or a comment
		}
		if data = bytes.TrimSpace(data); string(data) == "[DONE]" {
			return nil
		}
		var r response
		if json.Unmarshal(data, &r) != nil || len(r.Error) > 0 && string(r.Error) != "null" {
			return a.invalid(r, data)
		}
		a.count(r)
		if len(r.Choices) == 0 {
			continue // the last event has only the usage
		}
		a.finished = a.finished || r.Choices[0].FinishReason != nil
		if content := r.Choices[0].Delta.Content; content != nil && *content != "" {
			if err := a.add(*content); err != nil {
				return err
			}
			if err := a.tell(*content); err != nil {
				return err
			}
		}
	}
	switch {
	case lines.Err() == nil && a.finished:
		return nil // some endpoints end the stream without [DONE]
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return a.broken("it is too long")
	}
	return a.broken("it broke off")
}

// add appends a piece of text.
func (a *answer) add(text string) error {
	if a.text.Len()+len(text) > maxAnswer {
		return a.broken("it is too long")
	}
	a.text.WriteString(text)
	return nil
}

func (a *answer) count(r response) {
	if r.Usage != nil {
		a.used = max(a.used, r.Usage.TotalTokens)
	}
}

// invalid returns the error for a response in another format.
func (a *answer) invalid(r response, text []byte) error {
	if said := a.said(text); len(r.Error) > 0 && said != "" {
		return fault.New(fault.Execution, op, string(a.model), errors.New(said))
	}
	return a.broken("it is not in the endpoint's format")
}

func (a *answer) broken(why string) error {
	return fault.New(fault.Execution, op, string(a.model), errors.New("invalid answer from the endpoint: "+why)).Advise("Check that inference.baseURL is an OpenAI-compatible endpoint.")
}
