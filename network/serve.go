package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/network/hello"
	"osaurus-sandbox/network/policy"
)

// opening is a connection whose requests have to be read.
type opening struct {
	Subject Subject
	Target  policy.Target
	TLS     bool
	// Dial reaches the target. It may be called several times.
	Dial func(context.Context) (net.Conn, error)
	// Authorize decides about a request. It may wait for a person.
	Authorize func(ctx context.Context, method, path string) policy.Decision
}

// opener serves a client whose requests have to be read, until its connection ends.
type opener func(ctx context.Context, client net.Conn, o opening) error

// serve runs a connection that the client has made.
func (c *connection) serve() error {
	v := &c.verdict
	switch {
	case v.decision.Action == policy.Deny:
		return c.refuse()
	case v.target.Port == portDNS:
		c.gateway.dns.ServeStream(c.flow, c.counted(nil))
		return nil
	case v.opened:
		return c.open(nil)
	case v.sniff:
		return c.relayChecked()
	}
	return c.flow.relay(c.in, c.out)
}

// close releases both ends.
func (c *connection) close() {
	if c.out != nil {
		_ = c.out.Close()
	}
	if c.in != nil {
		_ = c.in.Close()
		c.in.drain(c.flow)
	}
}

// first reads until it is clear what the client speaks and which host it asks for. Nothing is
// complete if the client ends before.
func (c *connection) first(patience time.Duration) (first []byte, kind hello.Kind, name string, err error) {
	if patience > 0 {
		_ = c.in.SetReadDeadline(time.Now().Add(patience))
	}
	defer func() { _ = c.in.SetReadDeadline(time.Time{}) }()
	for {
		if len(first) == 0 && patience == 0 {
			c.in.waitReadable() // the server may speak first
			_ = c.in.SetReadDeadline(time.Now().Add(firstBytesTimeout))
		}
		first = slices.Grow(first, min(max(len(first), firstBuffer), hello.MaxFirst))
		n, err := c.in.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
		c.flow.sent.Add(int64(n))
		c.flow.touch()
		kind, name, complete := hello.Sniff(first)
		if complete || err != nil {
			if !complete && len(first) > 0 {
				kind = hello.Invalid
			}
			return first, kind, name, err
		}
	}
}

// firstBuffer holds the first message of most clients.
const firstBuffer = 2048

// refuse tells the client why it is refused, in its own protocol.
func (c *connection) refuse() error {
	defer context.AfterFunc(c.flow, c.in.abort)()
	_, kind, _, _ := c.first(refusalTimeout)
	hello.Refuse(c.in, kind, c.text())
	return errRefused
}

// refusalTimeout is how long a client that is refused may take to say what it speaks.
const refusalTimeout = 10 * time.Second

// text is what a refused client is told.
func (c *connection) text() string {
	d, t := c.verdict.decision, c.verdict.target
	what := t.Name
	if what == "" {
		what = t.Addr.String()
	}
	text := fmt.Sprintf("The sandbox refuses %s: %s.", what, strings.TrimSuffix(d.Reason, "."))
	if d.Advice != "" {
		text += "\n" + d.Advice
	}
	return text
}

// deny changes the verdict, and refuses the client.
func (c *connection) deny(kind hello.Kind, d policy.Decision) error {
	d.Action = policy.Deny
	c.verdict.decision = d
	c.flow.update(func(r *Flow) { r.Decision = d })
	c.gateway.refused.Add(1)
	hello.Refuse(c.in, kind, c.text())
	return errRefused
}

// check decides about the name for which a client asks. It returns an empty decision if that is the
// one that was decided already.
func (c *connection) check(kind hello.Kind, name string) policy.Decision {
	v := &c.verdict
	allowed := policy.Decision{Action: policy.Allow}
	switch {
	case kind == hello.Other || kind == hello.SSH:
		return allowed // its address was told for an allowed name
	case kind == hello.HTTP2:
		return policy.Decision{Action: policy.Deny, Reason: "HTTP/2 without TLS hides the name that it asks for"}
	case kind == hello.Invalid:
		return policy.Decision{Action: policy.Deny, Reason: "the first message is not valid"}
	case name == v.target.Name:
		return allowed
	case name == "":
		return policy.Decision{Action: policy.Deny, Reason: "the program does not say which name it asks for"}
	case !slices.Contains(v.names, name):
		return policy.Decision{Action: policy.Deny, Reason: fmt.Sprintf("the program asks for %q at an address of %s", name, v.target.Name)}
	}
	t := v.target
	t.Name = name
	other := c.gateway.weigh(c.flow.member, t, []string{name})
	if other.decision.Action == policy.Ask {
		c.gateway.ask(c.flow, &other)
	}
	if other.opened && other.decision.Action == policy.Allow {
		return policy.Decision{Action: policy.Deny, Reason: name + " shares its address with " + v.target.Name}
	}
	v.target, v.decision = other.target, other.decision
	c.flow.update(func(r *Flow) { r.Target, r.Decision = other.target, other.decision })
	return other.decision
}

// relayChecked relays, but holds the client's first bytes until the name in them is decided. What the
// server sends flows at once: some protocols begin with it.
func (c *connection) relayChecked() error {
	host := newHostConn(c.out)
	stop := context.AfterFunc(c.flow, func() {
		c.in.abort()
		host.abort()
	})
	defer stop()
	back := c.flow.start(c.in, host, &c.flow.received)
	first, kind, name, err := c.first(0)
	if err != nil && !errors.Is(err, io.EOF) {
		host.abort()
		<-back.done
		return err
	}
	d := policy.Decision{Action: policy.Allow}
	if len(first) > 0 && (kind != hello.HTTP2 || c.gateway.open == nil) {
		d = c.check(kind, name)
	}
	if d.Action == policy.Deny {
		back.interrupt(host)
		return c.deny(kind, d)
	}
	if (kind == hello.HTTP || kind == hello.HTTP2) && c.gateway.open != nil {
		// The next request may ask for another host.
		back.interrupt(host)
		return c.open(&opened{first, kind})
	}
	return c.flow.finish(c.in, host, first, back)
}

// opened is what was read of a client before it is known that it is opened.
type opened struct {
	first []byte
	kind  hello.Kind
}

// open gives the connection to the opener.
func (c *connection) open(o *opened) error {
	v := &c.verdict
	if o == nil {
		first, kind, _, err := c.first(firstBytesTimeout)
		if err != nil {
			return err
		}
		o = &opened{first, kind}
	}
	speaksHTTP := o.kind == hello.TLS || o.kind == hello.HTTP || o.kind == hello.HTTP2
	if c.gateway.open == nil || !speaksHTTP {
		return c.deny(o.kind, policy.Decision{Rule: v.decision.Rule, Reason: "a rule allows only some HTTP requests, and this is none that can be read"})
	}
	defer context.AfterFunc(c.flow, c.in.abort)()
	var once sync.Once
	return c.gateway.open(c.flow, c.counted(o.first), opening{
		Subject: c.flow.member.subject, Target: v.target, TLS: o.kind == hello.TLS,
		Dial: func(ctx context.Context) (conn net.Conn, err error) {
			once.Do(func() { conn, c.out = c.out, nil })
			if conn != nil {
				return conn, nil
			}
			return c.gateway.dial(c.flow, v.target)
		},
		Authorize: func(ctx context.Context, method, path string) policy.Decision {
			t := v.target
			t.Method, t.Path = method, path
			w := c.gateway.weigh(c.flow.member, t, []string{t.Name})
			if w.decision.Action == policy.Ask && ctx.Err() == nil {
				c.gateway.ask(c.flow, &w)
			}
			return w.decision
		},
	})
}

// countedConn counts what passes, and reads what was read before first.
type countedConn struct {
	*guestConn
	flow  *flow
	first []byte
}

func (c *connection) counted(first []byte) *countedConn {
	return &countedConn{c.in, c.flow, first}
}

func (c *countedConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	n, err := c.guestConn.Read(p)
	c.flow.sent.Add(int64(n))
	c.flow.touch()
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.guestConn.Write(p)
	c.flow.received.Add(int64(n))
	c.flow.touch()
	return n, err
}
