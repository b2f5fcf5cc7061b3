// Package inferencetest has an OpenAI-compatible endpoint for tests. A model's name says how it behaves.
package inferencetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Key is the API key that the endpoint accepts.
const Key = "sk-test-5a1fe3b07c9d"

// The models. "status-429" and the like answer with that status.
const (
	Echo    = "echo"    // repeats the chat word by word
	Silent  = "silent"  // like echo, without usage
	Endless = "endless" // writes words until the client leaves
	Cut     = "cut"     // hangs up in the middle of a word
	Slow    = "slow"    // never answers
	Large   = "large"   // answers with 8 MiB
	Garbled = "garbled" // answers with invalid JSON
	Sorry   = "sorry"   // reports an error in the middle of an answer
	Moved   = "moved"   // redirects
	Telling = "telling" // refuses and quotes the key it received
)

// Endpoint is an http.Handler. The zero value is ready.
type Endpoint struct {
	// Left counts the chats that the client left in the middle.
	Left atomic.Int32
	// Words counts the words written.
	Words atomic.Int32

	mu    sync.Mutex
	asked []Question
}

// Question is a chat that the endpoint received.
type Question struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// Asked returns the chats so far.
func (e *Endpoint) Asked() []Question {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Question(nil), e.asked...)
}

type object map[string]any

// ServeHTTP answers /v1/models and /v1/chat/completions.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if shown != Key {
		refuse(w, http.StatusUnauthorized, "Incorrect API key provided: "+shown)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/models":
		reply(w, object{"object": "list", "data": []object{{"id": Echo, "object": "model", "created": 1, "owned_by": "tests"}}})
	case "POST /v1/chat/completions":
		var q Question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 {
			refuse(w, http.StatusBadRequest, "the request is wrong")
			return
		}
		e.mu.Lock()
		e.asked = append(e.asked, q)
		e.mu.Unlock()
		e.chat(w, r, q)
	default:
		refuse(w, http.StatusNotFound, "no such path")
	}
}

func (e *Endpoint) chat(w http.ResponseWriter, r *http.Request, q Question) {
	if text, ok := strings.CutPrefix(q.Model, "status-"); ok {
		status, _ := strconv.Atoi(text)
		w.Header().Set("Retry-After", "7")
		refuse(w, status, "so it is:\n"+text)
		return
	}
	said := q.Messages[len(q.Messages)-1].Content
	switch q.Model {
	case Moved:
		w.Header().Set("Location", "/v1/models")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case Telling:
		refuse(w, http.StatusBadRequest, "not with "+Key)
	case Garbled:
		_, _ = fmt.Fprint(w, "data: {\"choices\":\n\n")
	case Slow:
		<-r.Context().Done()
		e.Left.Add(1)
	case Echo, Silent, Endless, Cut, Large, Sorry:
		if q.Model == Large {
			said = strings.Repeat(strings.Repeat("x", 64<<10)+" ", 8<<20/(64<<10))
		}
		e.say(w, r, q, said)
	default:
		refuse(w, http.StatusNotFound, "The model `"+q.Model+"` does not exist")
	}
}

// say answers whole or as a stream.
func (e *Endpoint) say(w http.ResponseWriter, r *http.Request, q Question, said string) {
	words := strings.SplitAfter(said, " ")
	usage := object{"prompt_tokens": len(words), "completion_tokens": len(words), "total_tokens": 2 * len(words)}
	if !q.Stream {
		answer := object{
			"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": q.Model,
			"choices": []object{{"index": 0, "finish_reason": "stop", "logprobs": nil, "message": object{"role": "assistant", "content": said, "refusal": nil}}},
		}
		if q.Model != Silent {
			answer["usage"] = usage
		}
		if q.Model == Cut {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"choices":[`))
			return
		}
		reply(w, answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	part := func(choices []object, usage object) bool {
		chunk := object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": q.Model, "choices": choices}
		if q.StreamOptions.IncludeUsage {
			chunk["usage"] = usage
		}
		return event(w, chunk)
	}
	choice := func(delta object, reason any) []object {
		return []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": reason}}
	}
	part(choice(object{"role": "assistant", "content": ""}, nil), nil)
	for i := 0; i < len(words) || q.Model == Endless; i++ {
		word := words[i%len(words)]
		if !part(choice(object{"content": word}, nil), nil) || r.Context().Err() != nil {
			e.Left.Add(1)
			return
		}
		e.Words.Add(1)
		if q.Model == Endless {
			time.Sleep(time.Millisecond)
		}
	}
	switch q.Model {
	case Cut:
		_, _ = fmt.Fprint(w, "data: {\"choi")
		panic(http.ErrAbortHandler)
	case Sorry:
		event(w, object{"error": object{"message": "it grew too hot", "type": "server_error"}})
		return
	}
	part(choice(object{}, "stop"), nil)
	if q.StreamOptions.IncludeUsage && q.Model != Silent {
		part([]object{}, usage)
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

// event sends one part and reports whether that worked.
func event(w http.ResponseWriter, part object) bool {
	text, _ := json.Marshal(part) // texts and numbers always marshal
	_, err := fmt.Fprintf(w, "data: %s\n\n", text)
	return err == nil && http.NewResponseController(w).Flush() == nil
}

func reply(w http.ResponseWriter, body object) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may have left
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"error": object{"message": why, "type": "invalid_request_error", "param": nil, "code": nil}})
}
