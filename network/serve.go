package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/network/hello"
	"osaurus-sandbox/network/intercept"
	"osaurus-sandbox/network/policy"
)

// serve runs a connection that the client has made.
func (c *connection) serve() error {
	v, host := &c.verdict, (*hostConn)(nil)
	if c.out != nil {
		host = newHostConn(c.out)
	}
	defer context.AfterFunc(c.flow, func() {
		c.in.abort()
		if host != nil {
			host.abort()
		}
	})()
	switch {
	case v.decision.Action == policy.Deny:
		_, kind, _, _ := c.first(firstBytesTimeout)
		return c.deny(kind, v.decision)
	case v.target.Port == PortDNS:
		c.gateway.dns.ServeStream(c.flow, c.counted(nil))
		return nil
	case v.opened || v.sniff || v.guard:
		return c.serveChecked(host)
	}
	return c.flow.finish(c.in, host, nil, c.flow.start(c.in, host, &c.flow.received))
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
	var began time.Time
	for {
		if len(first) == 0 && patience == 0 {
			c.in.waitReadable() // the server may speak first
			began = time.Now()
			_ = c.in.SetReadDeadline(began.Add(firstBytesTimeout))
		} else if c.verdict.guarded() && kind == hello.HTTP {
			_ = c.in.SetReadDeadline(began.Add(guardTimeout)) // the client's first word may be a method, or not
		}
		first = slices.Grow(first, min(max(len(first), firstBuffer), hello.MaxFirst))
		n, err := c.in.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
		c.flow.touch()
		var complete bool
		if kind, name, complete = hello.Sniff(first); complete || err != nil {
			if !complete && len(first) > 0 {
				kind = hello.Invalid
			}
			return first, kind, name, err
		}
	}
}

// firstBuffer holds the first message of most clients.
const firstBuffer = 2048

// text is what a refused client is told.
func (c *connection) text() string {
	d, t := c.verdict.decision, c.verdict.target
	t.Port = 0
	text := fmt.Sprintf("The sandbox refuses %s: %s.", t, strings.TrimSuffix(d.Reason, "."))
	if advice := d.Advice; advice != "" {
		if name := c.gateway.options.AgentName; name != nil {
			advice = strings.Replace(advice, "NAME", name(c.flow.member.subject.Agent), 1)
		}
		text += "\n" + advice
	}
	return text
}

// deny changes the verdict, and tells the client in its own protocol.
func (c *connection) deny(kind hello.Kind, d policy.Decision) error {
	d.Action = policy.Deny
	c.verdict.decision = d
	c.flow.update(func(r *Flow) { r.Decision = d })
	c.gateway.refused.Add(1)
	hello.Refuse(c.in, kind, c.text())
	return errRefused
}

// check decides about the name for which a client asks, and changes the verdict.
func (c *connection) check(kind hello.Kind, name string) policy.Decision {
	v := &c.verdict
	read := v.opened || v.sniff
	other := v.target // with the name
	other.Name = name
	var w verdict // about that
	if name != "" && name != v.target.Name {
		w = c.gateway.weigh(c.flow.member, other, []string{name})
	}
	if v.guard {
		switch {
		case w.decision.Rule != nil && (w.decision.Action == policy.Deny || w.decision.Observed):
			v.target = other
			c.flow.update(func(r *Flow) { r.Target, r.Decision = other, w.decision })
			return w.decision
		case w.opened && !v.opened && v.target.Name == "":
			return policy.Decision{Action: policy.Deny, Reason: fmt.Sprintf("requests to %s are read, and the program connects to an address that it was not told for this name", name)}
		}
		read = read || w.opened
	}
	if v.guarded() && kind == hello.Invalid && c.gateway.policyOf(c.flow.member).HasNames(time.Now()) {
		return policy.Decision{Action: policy.Deny, Reason: "the first message is not valid, and could be for a host that a rule denies"}
	}
	if !read {
		return v.decision
	}
	if v.target.Name == "" || name == v.target.Name || kind == hello.Other || kind == hello.SSH {
		return v.decision // the address was told for an allowed name
	}
	d := policy.Decision{Action: policy.Deny}
	switch {
	case kind == hello.HTTP2:
		return v.decision // each request is decided
	case kind == hello.Invalid:
		d.Reason = "the first message is not valid"
	case name == "":
		d.Reason = "the program does not say which name it asks for"
	case !slices.Contains(v.names, name):
		d.Reason = fmt.Sprintf("the program asks for %q at an address of %s", name, v.target.Name)
	default:
		w.names = v.names
		*v = w
		if v.decision.Action == policy.Ask {
			c.gateway.ask(c.flow, v)
		}
		c.flow.update(func(r *Flow) { r.Target, r.Decision = v.target, v.decision })
		return v.decision
	}
	return d
}

// serveChecked holds the client's first bytes until the name in them is decided. What the server
// sends flows at once, unless requests have to be read: some protocols begin with it.
func (c *connection) serveChecked(host *hostConn) error {
	var back *direction
	patience := firstBytesTimeout
	if !c.verdict.opened {
		back, patience = c.flow.start(c.in, host, &c.flow.received), 0
	}
	first, kind, name, err := c.first(patience)
	if timeout, ok := errors.AsType[net.Error](err); c.verdict.guarded() && len(first) > 0 && (errors.Is(err, io.EOF) || ok && timeout.Timeout()) {
		kind, err = hello.Other, nil
	}
	if err != nil && !(errors.Is(err, io.EOF) && len(first) == 0 && !c.verdict.opened) {
		back.interrupt(host)
		return err
	}
	d, byName := c.verdict.decision, c.verdict.opened || c.verdict.sniff
	if len(first) > 0 {
		d = c.check(kind, name)
	}
	requests := (kind == hello.HTTP || kind == hello.HTTP2) && (byName || c.verdict.opened) || kind == hello.TLS && c.verdict.opened
	switch {
	case d.Action == policy.Deny:
		back.interrupt(host)
		return c.deny(kind, d)
	case requests:
		back.interrupt(host) // the next request may ask for another host
		if opened := &c.flow.member.opened; kind != hello.HTTP {
			if d.Reason = take(opened); d.Reason != "" {
				return c.deny(kind, d)
			}
			defer give(opened)
		}
		return c.intercept(first, kind == hello.TLS)
	case c.verdict.opened:
		back.interrupt(host)
		d.Reason = "only HTTP requests are allowed here, and the program speaks something else"
		return c.deny(kind, d)
	}
	if back == nil { // the client asks for another name of the address, which is not opened
		back = c.flow.start(c.in, host, &c.flow.received)
	}
	return c.flow.finish(c.in, host, first, back)
}

// intercept decides about each request.
func (c *connection) intercept(first []byte, secured bool) error {
	v, g, s := &c.verdict, c.gateway, c.flow.member.subject
	c.flow.timeout.Store(int64(openedTimeout))
	var o intercept.Options
	o.Name, o.Port, o.TLS, o.Log = v.target.Name, v.target.Port, secured, g.options.Log
	if o.Name == "" {
		o.Name = v.target.Addr.String()
	}
	if g.options.Opens != nil {
		g.options.Opens(s, o.Name, &o)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Cleartext = v.target.Addr.IsLoopback()
	var once sync.Once
	o.Dial = func(context.Context) (conn net.Conn, err error) {
		once.Do(func() { conn, c.out = c.out, nil })
		if conn != nil {
			return conn, nil
		}
		return g.dial(c.flow, v.target)
	}
	o.Authorize = func(ctx context.Context, method, path string) policy.Decision {
		t := v.target
		t.Method, t.Path = method, path
		w := g.weigh(c.flow.member, t, []string{t.Name})
		if w.decision.Action == policy.Ask && ctx.Err() == nil {
			g.ask(c.flow, &w)
		}
		return w.decision
	}
	o.Refused = func(method, path string, d policy.Decision) {
		t := v.target
		t.Method = method
		t.Path, _, _ = strings.Cut(path, "?")
		g.refused.Add(1)
		g.report(c.flow.member, t, d, "")
	}
	return intercept.Serve(c.flow, c.counted(first), o)
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
		c.flow.count(&c.flow.sent, n)
		return n, nil
	}
	n, err := c.guestConn.Read(p)
	c.flow.count(&c.flow.sent, n)
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.guestConn.Write(p)
	c.flow.count(&c.flow.received, n)
	return n, err
}
