package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// exchange is one request and its answer.
type exchange struct {
	*conversation
	client *Client
	ctx    context.Context
	stop   func() bool // ends the watch over ctx; false if it struck
	head   head
	body   io.Reader
	over   bool // all of the body has been read
}

// send writes the request and reads the head of the answer.
func (x *exchange) send(request []byte) error {
	// Who refuses a request may do so before it has read all of it; then the
	// refusal says more than the broken pipe.
	_, unsent := x.conn.Write(request)
	var err error
	if x.head, err = readHead(x.r); err != nil {
		if unsent != nil {
			return unsent
		}
		return err
	}
	x.body = x.head.body(x.r)
	return nil
}

// all reads the body to its end.
func (x *exchange) all() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(x.body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("it is larger than %d MiB", maxAnswer>>20)
	}
	x.over = true
	return text, nil
}

// end gives the connection back, or closes it if it is good for nothing more.
func (x *exchange) end() {
	if x.stop() && x.over && !x.head.last && x.r.Buffered() == 0 {
		x.client.keep(x.conversation)
		return
	}
	x.conn.Close()
}

// refusal is the error that the answer stands for.
func (x *exchange) refusal() error {
	text, err := x.all()
	if err != nil {
		return x.failed(err)
	}
	var f wire.Failure
	if json.Unmarshal(text, &f) != nil || f.Error == "" {
		f = wire.Failure{Error: fmt.Sprintf("the bridge answers with status %d", x.head.status)}
	}
	return x.told(f)
}

// told is the error that the bridge tells.
func (x *exchange) told(f wire.Failure) error {
	if !slices.Contains(fault.Kinds(), f.Kind) {
		f.Kind = kindOf(x.head.status)
	}
	return fault.New(f.Kind, "", "", errors.New(f.Error)).Advise(cmp.Or(f.Advice, adviceFor(x.head)))
}

// failed is the error for an exchange that broke.
func (x *exchange) failed(err error) error {
	const op = "ask the bridge"
	if cause := x.ctx.Err(); cause != nil {
		return fault.Wrap(op, "", cause)
	}
	if errors.Is(err, io.EOF) {
		return fault.Newf(fault.Unavailable, op, "", "it hung up").
			Advise("It answers the agent whose sandbox this is, and nobody else. If you are that agent, the host may be restarting: try again in a moment.")
	}
	return fault.New(fault.Unavailable, op, "", err)
}

// kindOf is the kind of failure that a status stands for, where the answer
// does not say.
func kindOf(status int) fault.Kind {
	switch status {
	case 400, 405, 413, 414, 431:
		return fault.InvalidArgs
	case 401, 403, 429:
		return fault.Rejected
	case 404:
		return fault.NotFound
	case 408, 504:
		return fault.Timeout
	case 502, 503:
		return fault.Unavailable
	}
	return fault.Execution
}

// adviceFor says what to do about a refusal that does not say it itself.
func adviceFor(h head) string {
	switch h.status {
	case 401:
		return "The token is not this agent's, or is no more. The next command that the agent is given comes with a new one."
	case 429:
		if seconds := strings.TrimSpace(h.retryAfter); seconds != "" {
			return "Try again in " + seconds + " seconds."
		}
		return "Try again in a minute."
	}
	return ""
}
