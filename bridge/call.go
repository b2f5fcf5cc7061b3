package bridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// maxError bounds the text of an error in bytes.
const maxError = 4 << 10

// call is one request from an agent's program.
type call struct {
	server    *Server
	w         http.ResponseWriter
	r         *http.Request
	who       Caller
	valid     context.Context // done when the caller's token is revoked
	account   *account
	name      string // at the end of the path
	body      []byte
	pluginErr error       // why who.Plugin must not be used
	answered  atomic.Bool // an answer has begun
}

// record writes the call to the audit log.
func (c *call) record(action Action, subject string, err error) {
	c.server.Audit.Record(c.r.Context(), c.who, action, subject, err)
}

// accept counts the call, and fails if the agent has reached its limit.
func (c *call) accept(of config.BridgeCalls) error {
	limit := c.server.Limits()[of]
	if after, ok := c.account.windows[of].Take(limit); !ok {
		return limited(fmt.Sprintf("%d %s a minute", limit, of), after)
	}
	return nil
}

// answer sends a success with a body, or the error if err is not nil.
func (c *call) answer(body any, err error) error {
	if err == nil {
		c.send(http.StatusOK, body)
	}
	return err
}

// fail answers with an error, whose kind determines the status.
func (c *call) fail(err error) {
	if c.answered.Load() {
		return // a stream has reported the error itself, or cannot
	}
	if c.valid.Err() != nil {
		c.unauthorized()
		return
	}
	if errors.Is(c.r.Context().Err(), context.Canceled) {
		err = fault.Newf(fault.InvalidArgs, "wait for the answer", "", "the connection was closed before it came").
			Advise("Keep the connection open until the answer begins.")
	}
	if l, ok := errors.AsType[*Limited](err); ok {
		c.w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(l.After.Seconds())))))
		c.refuse(http.StatusTooManyRequests, err)
		return
	}
	c.refuse(status(fault.KindOf(err)), err)
}

// status returns the HTTP status for a kind of error.
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

func (c *call) refuse(status int, err error) { c.send(status, c.failure(err)) }

// failure describes an error to a program. Errors that are not *fault.Error, or that wrap a
// HostOnly, are only logged.
func (c *call) failure(err error) wire.Failure {
	kind := fault.KindOf(err)
	_, hostOnly := errors.AsType[HostOnly](err)
	if _, ok := errors.AsType[*fault.Error](err); ok && !hostOnly {
		return wire.Failure{Error: printable.First(err.Error(), maxError), Kind: kind, Advice: printable.First(fault.AdviceOf(err), maxError)}
	}
	c.server.Log.Error("the bridge could not answer", "agent", c.who.Name, "path", brief(c.r.URL.Path), "error", err)
	if kind == fault.Timeout {
		return wire.Failure{Error: "it took too long on the host", Kind: kind}
	}
	return wire.Failure{Error: "it failed on the host", Kind: kind}
}

// send writes a complete answer.
func (c *call) send(status int, body any) {
	text, err := printable.JSON(body)
	if err != nil {
		c.server.Log.Error("the bridge's own answer is not JSON", "path", brief(c.r.URL.Path), "error", err)
		status, text = http.StatusInternalServerError, []byte(`{"error":"it failed on the host"}`)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	c.answered.Store(true)
	c.writeDeadline()
	c.w.WriteHeader(status)
	_, _ = c.w.Write(text) // the program may have exited
}

// writeDeadline limits how long the program may take to read the next write. It cannot fail on an open connection.
func (c *call) writeDeadline() {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeTimeout))
}
