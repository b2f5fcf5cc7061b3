package network

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/network/policy"
)

// Why flows are ended by the gateway.
var (
	errClosed  = errors.New("the gateway was closed")
	errLeft    = errors.New("the room was removed")
	errRevoked = errors.New("the policy no longer allows it")
	errIdle    = errors.New("nothing was sent for too long")
	errRefused = errors.New("refused") // the decision says why
)

// flow is one that runs, or that is being made.
type flow struct {
	gateway *Gateway
	member  *member
	context.Context
	cancel context.CancelCauseFunc

	sent, received atomic.Int64
	active         atomic.Int64 // the time of the last bytes
	timeout        atomic.Int64

	// Guarded by the gateway's mutex.
	record Flow
	asked  bool // a person allowed it
	opened bool
	quiet  bool
}

// begin registers a flow. It returns nil if the gateway is closed or the subject has left.
func (g *Gateway) begin(m *member, v verdict, timeout time.Duration) *flow {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.members.at(m.addr) != m {
		return nil
	}
	f := &flow{gateway: g, member: m, opened: v.opened, quiet: v.quiet}
	f.record = Flow{Subject: m.subject, Began: time.Now(), Target: v.target, Decision: v.decision}
	f.Context, f.cancel = context.WithCancelCause(g.ctx)
	f.timeout.Store(int64(timeout))
	f.touch()
	g.flows[f] = struct{}{}
	g.running.Add(1)
	return f
}

// end removes the flow and records it. The error is why it failed, or nil.
func (f *flow) end(err error) {
	g := f.gateway
	if cause := context.Cause(f); cause != nil {
		err = cause // what follows from it says less
	}
	f.cancel(nil)
	g.mu.Lock()
	delete(g.flows, f)
	f.record.Ended, f.record.Sent, f.record.Received = time.Now(), f.sent.Load(), f.received.Load()
	if err != nil && !errors.Is(err, errRefused) {
		f.record.Error = err.Error()
	}
	record := f.record
	g.mu.Unlock()
	if !f.quiet {
		g.record(record)
	}
	g.running.Done()
}

// touch notes that bytes have passed.
func (f *flow) touch() { f.active.Store(time.Now().UnixNano()) }

// update changes what is recorded.
func (f *flow) update(change func(*Flow)) {
	f.gateway.mu.Lock()
	defer f.gateway.mu.Unlock()
	change(&f.record)
}

// refuse records a flow that was refused by its first packet.
func (g *Gateway) refuse(m *member, v verdict) {
	g.refused.Add(1)
	now := time.Now()
	g.record(Flow{Subject: m.subject, Began: now, Ended: now, Target: v.target, Decision: v.decision})
}

// exceed records that a subject has reached a limit, once a second.
func (g *Gateway) exceed(m *member, t policy.Target, reason string) {
	g.limited.Add(1)
	m.refusals.Do(func() {
		now := time.Now()
		g.record(Flow{Subject: m.subject, Began: now, Ended: now, Target: t, Decision: policy.Decision{Action: policy.Deny, Reason: reason}})
	})
}

func (g *Gateway) record(f Flow) {
	if g.options.Record != nil {
		g.options.Record(f)
	}
}

// sweep ends flows that are idle, and those whose rule has ended.
func (g *Gateway) sweep() {
	ticks := time.NewTicker(sweepEvery)
	defer ticks.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case now := <-ticks.C:
			g.endIdle(now)
			g.endExpired(now)
		}
	}
}

func (g *Gateway) endIdle(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for f := range g.flows {
		if now.UnixNano()-f.active.Load() > f.timeout.Load() {
			f.cancel(errIdle)
		}
	}
}

// endFlows ends the flows of members.
func (g *Gateway) endFlows(gone []*member, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for f := range g.flows {
		for _, m := range gone {
			if f.member == m {
				f.cancel(cause)
			}
		}
	}
}

// Recheck applies an agent's policy and limits to its open flows.
func (g *Gateway) Recheck(a config.AgentID) {
	if m := g.members.of(Subject{Agent: a}); m != nil {
		g.bound(m, time.Now()) // its plugins' too
	}
	g.recheck(time.Now(), func(f *flow) bool { return f.member.subject.Agent == a })
}

func (g *Gateway) endExpired(now time.Time) {
	g.recheck(now, func(f *flow) bool { return f.record.Decision.Rule != nil && f.record.Decision.Rule.Expired(now) })
}

func (g *Gateway) recheck(now time.Time, which func(*flow) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for f := range g.flows {
		if f.quiet || f.record.Decision.Action == policy.Deny || !which(f) {
			continue
		}
		p := g.policy(f.member.subject)
		d := judge(p, f.record.Target, now)
		stays := d.Action == policy.Allow || d.Action == policy.Ask && (f.asked || f.record.Decision.Action == policy.Ask)
		if stays && (f.opened || f.record.Target.Protocol != policy.TCP || !p.Opened(f.record.Target, now)) {
			continue
		}
		f.record.Decision = d
		f.cancel(errRevoked)
	}
}
