package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// maxError bounds the text of an error: it is read by people and models.
const maxError = 4 << 10

// call is one request that was let in.
type call struct {
	server  *Server
	w       http.ResponseWriter
	r       *http.Request
	who     Caller
	pass    context.Context // ends when the caller's token counts no more
	account *account
	name    string // at the end of the path
	body    []byte

	pluginErr error // why the caller's plugin is not known
	answered  bool
}

// absent is the error where a service is not there.
func absent(what string) error {
	return fault.Newf(fault.Unavailable, "ask the bridge for", what, "this host does not offer it").Advise("Do without it: only the person at the host can change that.")
}

// members reads the body, a JSON object that has at least the members that are
// required, into what.
func (c *call) members(what any, required ...string) error {
	const op = "read body"
	const advice = "Send a JSON object in UTF-8."
	if !utf8.Valid(c.body) {
		return fault.Newf(fault.InvalidArgs, op, "", "it is not UTF-8").Advise(advice)
	}
	if exceeds(c.body, '{', maxMembers) && json.Valid(c.body) {
		return fault.Newf(fault.InvalidArgs, op, "", "it has more than %d members", maxMembers).Advise("Send only those that the route has.")
	}
	var there map[string]json.RawMessage
	if err := json.Unmarshal(c.body, &there); err != nil || there == nil {
		return fault.Newf(fault.InvalidArgs, op, "", "it is not a JSON object").Advise(advice)
	}
	for _, name := range required {
		if v, ok := there[name]; !ok || string(v) == "null" {
			return fault.Newf(fault.InvalidArgs, op, name, "it is missing").Advise("Send it.")
		}
	}
	if err := json.Unmarshal(c.body, what); err != nil {
		if _, ours := errors.AsType[*fault.Error](err); ours {
			return err
		}
		return fault.New(fault.InvalidArgs, op, "", err)
	}
	return nil
}

// record notes the call in the audit.
func (c *call) record(action Action, subject string, err error) {
	c.server.Audit.Record(context.WithoutCancel(c.r.Context()), c.who, action, subject, err)
}

// accept counts the call, or refuses it.
func (c *call) accept(b bucket) error {
	limit, of := b.limit(c.server.Limits())
	if after, ok := c.account.windows[b].take(limit); !ok {
		return limited(fmt.Sprintf("%d %s a minute", limit, of), after)
	}
	return nil
}

// answer ends the call.
func (c *call) answer(body any) error {
	c.send(http.StatusOK, body)
	return nil
}

// fail ends the call with an error; its status is what the error's kind says.
func (c *call) fail(err error) {
	if c.answered {
		return // it was told in the stream
	}
	if c.pass.Err() != nil {
		c.stranger()
		return
	}
	if c.left() { // or only says nothing more, and still listens
		err = fault.Newf(fault.InvalidArgs, "wait for the answer", "", "the connection was closed before it came").
			Advise("Keep both directions of the connection open.")
	}
	if l, ok := errors.AsType[*Limited](err); ok {
		c.w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(l.After.Seconds())))))
		c.refuse(http.StatusTooManyRequests, err)
		return
	}
	c.refuse(status(fault.KindOf(err)), err)
}

// left reports whether the program has left.
func (c *call) left() bool { return errors.Is(c.r.Context().Err(), context.Canceled) }

// status is what an error's kind is in HTTP.
func status(k fault.Kind) int {
	switch k {
	case fault.InvalidArgs:
		return http.StatusBadRequest
	case fault.Rejected, fault.UserDenied:
		return http.StatusForbidden
	case fault.NotFound, fault.ToolNotFound:
		return http.StatusNotFound
	case fault.Timeout:
		return http.StatusGatewayTimeout
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// refuse ends the call with an error under a status.
func (c *call) refuse(status int, err error) { c.send(status, c.failure(err)) }

// failure is an error in the words for a program. What no *fault.Error says, or
// one says that is HostOnly, is not for it: the log has it.
func (c *call) failure(err error) wire.Failure {
	kind := fault.KindOf(err)
	_, ours := errors.AsType[HostOnly](err)
	if _, ok := errors.AsType[*fault.Error](err); ok && !ours {
		return wire.Failure{Error: printable.First(err.Error(), maxError), Kind: kind, Advice: printable.First(fault.AdviceOf(err), maxError)}
	}
	c.server.Log.Error("the bridge could not answer", "agent", c.who.Name, "path", brief(c.r.URL.Path), "error", err)
	if kind == fault.Timeout {
		return wire.Failure{Error: "it took too long on the host", Kind: kind}
	}
	return wire.Failure{Error: "it went wrong on the host", Kind: kind}
}

// send writes a whole answer.
func (c *call) send(status int, body any) {
	c.answered = true
	text, err := printable.JSON(body)
	if err != nil {
		c.server.Log.Error("the bridge's own answer is not JSON", "path", brief(c.r.URL.Path), "error", err)
		status, text = http.StatusInternalServerError, []byte(`{"error":"it went wrong on the host"}`)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	c.hurry()
	c.w.WriteHeader(status)
	_, _ = c.w.Write(text) // who has left does not read it
}

// hurry bounds how long the program may take to read what is written next.
func (c *call) hurry() {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(answerLimit)) // a connection that has ended needs none
}
