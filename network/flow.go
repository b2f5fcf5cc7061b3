package network

import (
	"context"
	"errors"
	"slices"
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

	verdict verdict  // as the flow began
	lasting []*limit // what it takes until it ends
	making  []*limit // what it takes until it is made

	// Guarded by the gateway's mutex.
	record Flow
	asked  bool // a person allowed it
}

// begin registers a flow. It returns nil if there are too many, the gateway is closed, or the subject
// has left.
func (g *Gateway) begin(m *member, v verdict, timeout time.Duration, lasting []*limit, making ...*limit) *flow {
	if v.decision.Action == policy.Ask {
		making = append(making, &m.held)
	}
	if reason := take(slices.Concat(lasting, making)...); reason != "" {
		g.exceed(m, v.target, reason)
		return nil
	}
	f := &flow{gateway: g, member: m, verdict: v, lasting: lasting, making: making}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.members.at(m.addr) != m {
		give(slices.Concat(lasting, making)...)
		return nil
	}
	f.record = Flow{Subject: m.subject, Began: time.Now(), Target: v.target, Decision: v.decision}
	f.Context, f.cancel = context.WithCancelCause(g.ctx)
	f.timeout.Store(int64(timeout))
	f.touch()
	g.flows[f] = struct{}{}
	g.running.Add(1)
	return f
}

// made gives back what only flows that are being made take.
func (f *flow) made() {
	give(f.making...)
	f.making = nil
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
	if !f.verdict.quiet {
		g.record(record)
	}
	give(slices.Concat(f.lasting, f.making)...)
	g.running.Done()
}

// touch notes that bytes have passed.
func (f *flow) touch() { f.active.Store(time.Now().UnixNano()) }

// count counts bytes that have passed. It waits if they came faster than the agent may have them, and
// ends the agent's flows if it may have no more.
func (f *flow) count(count *atomic.Int64, n int) {
	f.touch()
	count.Add(int64(n))
	if f.member.spend(f, n) {
		f.gateway.Recheck(f.member.subject.Agent)
	}
}

// update changes what is recorded.
func (f *flow) update(change func(*Flow)) {
	f.gateway.mu.Lock()
	defer f.gateway.mu.Unlock()
	change(&f.record)
}

// exceed records that a subject has reached a limit, once a second.
func (g *Gateway) exceed(m *member, t policy.Target, reason string) {
	g.limited.Add(1)
	m.refusals.Do(func() { g.report(m, t, policy.Decision{Action: policy.Deny, Reason: reason}, "") })
}

// report records what has ended as it began: a refused flow, or a query.
func (g *Gateway) report(m *member, t policy.Target, d policy.Decision, failure string) {
	now := time.Now()
	g.record(Flow{Subject: m.subject, Began: now, Ended: now, Target: t, Decision: d, Error: failure})
}

func (g *Gateway) record(f Flow) {
	if g.options.Record != nil {
		g.options.Record(f)
	}
}

// sweep calls expire now and then.
func (g *Gateway) sweep() {
	ticks := time.NewTicker(sweepEvery)
	defer ticks.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case now := <-ticks.C:
			g.expire(now)
		}
	}
}

// expire ends flows that are idle, and those whose rule has ended.
func (g *Gateway) expire(now time.Time) {
	g.endFlows(func(f *flow) bool { return now.UnixNano()-f.active.Load() > f.timeout.Load() }, errIdle)
	g.recheck(now, func(f *flow) bool { return f.record.Decision.Rule != nil && f.record.Decision.Rule.Expired(now) })
}

func (g *Gateway) endFlows(which func(*flow) bool, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for f := range g.flows {
		if which(f) {
			f.cancel(cause)
		}
	}
}

// Recheck applies an agent's limits, and ends its flows that are no longer allowed.
func (g *Gateway) Recheck(a config.AgentID) {
	if b := g.members.budget(a); b != nil && g.options.Limits != nil {
		b.set(g.options.Limits(a))
	}
	g.recheck(time.Now(), func(f *flow) bool { return f.member.subject.Agent == a })
}

func (g *Gateway) recheck(now time.Time, which func(*flow) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for f := range g.flows {
		if f.verdict.quiet || f.record.Decision.Action == policy.Deny || !which(f) {
			continue
		}
		p := g.policyOf(f.member)
		d := judge(p, f.record.Target, now)
		held := f.record.Decision.Action == policy.Ask // decided about again when it is answered
		stays := d.Action == policy.Allow || held || d.Action == policy.Ask && f.asked
		if stays && (f.verdict.opened || f.record.Target.Protocol != policy.TCP || !p.Opened(f.record.Target, now)) {
			continue
		}
		f.record.Decision = d
		f.cancel(errRevoked)
	}
}
