package network

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"osaurus-sandbox/network/names"
	"osaurus-sandbox/network/policy"
)

// What one agent and its plugins may have at a time. A flow costs the gateway two goroutines, a descriptor and
// what is under way, so these bound its memory.
const (
	// maxFlows is the number of TCP connections. A browser has at most 256.
	maxFlows = 256
	// maxHalfOpen is the number of connections that are being made: 32 workers of a package
	// manager for 4 programs.
	maxHalfOpen = 128
	// maxHeld is the number of connections for which a person is asked at a time.
	maxHeld = 32
	// maxOpened is the number of connections that are opened and may speak HTTP/2: of each, slow
	// readers can hold some 2 MiB.
	maxOpened = 32
	// maxDatagramFlows is the number of pairs of UDP ports.
	maxDatagramFlows = 128
	// maxPings and maxQueries bound echo requests and DNS queries that wait for an answer.
	maxPings   = 16
	maxQueries = 64
	// newFlowsPerSecond and newFlowsBurst bound new flows, refused ones too. A build that fetches
	// each file by a connection of its own stays below 500 a second.
	newFlowsPerSecond = 500
	newFlowsBurst     = 1000
	// speedBurst is what passes at once if an agent's bytes are limited: a few buffers of a relay.
	speedBurst = 64 << 10
)

// What all agents may have together.
const (
	maxAllFlows    = 1024
	maxAllHalfOpen = 512
	// The first largeFlows have buffers that grow to largeBuffer, those up to mediumFlows have
	// smallBuffer, and all others tinyBuffer, so that slow readers cost little however many.
	largeFlows  = 32
	mediumFlows = 256
	largeBuffer = 256 << 10
	smallBuffer = 32 << 10
	tinyBuffer  = 8 << 10
	// copyBuffer is what one direction of a relay reads at once.
	copyBuffer = 16 << 10
	// maxDatagram is the largest payload of UDP.
	maxDatagram = 65507
)

// How long things take at most.
const (
	// askTimeout is how long a connection is held while a person is asked. Node's fetch gives up
	// after 10 s, pip after 15, and others later. The answer is valid for the next attempt.
	askTimeout = 9 * time.Second
	// dialTimeout is how long the outside may take to accept. Node's fetch gives up after 10 s.
	dialTimeout = 30 * time.Second
	// handshakeTimeout is how long a guest may take to finish a handshake. It is near, but may be
	// busy.
	handshakeTimeout = 15 * time.Second
	// idleTimeout is RFC 5382's minimum for an established connection through a NAT.
	// halfClosedTimeout is for a connection that is closed in one direction.
	idleTimeout       = 2*time.Hour + 4*time.Minute
	halfClosedTimeout = 10 * time.Minute
	// openedTimeout is for a connection whose requests are read: it holds more memory. Models think for
	// minutes before they answer; WebSockets are kept alive by pings.
	openedTimeout = 30 * time.Minute
	// datagramTimeout is RFC 4787's recommendation for UDP, without port 53.
	datagramTimeout = 5 * time.Minute
	// firstBytesTimeout is how long a client whose name must be checked may stay silent while it
	// sends its first message.
	firstBytesTimeout = 30 * time.Second
	// guardTimeout is the same for a client that may also say nothing: its protocol may wait for the server.
	guardTimeout = 3 * time.Second
	// pingTimeout is how long an echo reply may take.
	pingTimeout = 10 * time.Second
	// drainTimeout is how long a client may take to read the rest of a flow that has ended.
	drainTimeout = 30 * time.Second
	// addressRest is how long an address rests after Leave. It is longer than a flow of its last
	// owner lives on in somebody's log or cache.
	addressRest = 10 * time.Minute
	// sweepEvery is how often idle flows are looked for.
	sweepEvery = 5 * time.Second
)

// Limits bound what an agent and its plugins send and receive together. Zero is no limit.
type Limits struct {
	BytesPerSecond int64
	BytesPerDay    int64 // a day begins at midnight UTC; a new gateway begins at zero
}

// limit counts what is in use. What was taken must be given back.
type limit struct {
	max    int64
	reason string // told to those that get none
	used   atomic.Int64
}

// take takes one of each, or takes none and returns why.
func take(limits ...*limit) (reason string) {
	for i, l := range limits {
		if l.used.Add(1) > l.max {
			give(limits[:i+1]...)
			return l.reason
		}
	}
	return ""
}

func give(limits ...*limit) {
	for _, l := range limits {
		l.used.Add(-1)
	}
}

// budget is what one agent and its plugins may have together.
type budget struct {
	fresh                                            *rate.Limiter
	refusals                                         rate.Sometimes
	flows, halfOpen, held, datagrams, pings, queries limit
	opened                                           limit
	names                                            *names.Budget
	speed                                            *rate.Limiter

	mu       sync.Mutex
	perDay   int64
	day      int64
	ofTheDay int64 // bytes
}

func newBudget() *budget {
	return &budget{
		fresh:     rate.NewLimiter(newFlowsPerSecond, newFlowsBurst),
		refusals:  rate.Sometimes{Interval: time.Second},
		flows:     limit{max: maxFlows, reason: "too many open connections"},
		halfOpen:  limit{max: maxHalfOpen, reason: "too many connections are being made"},
		opened:    limit{max: maxOpened, reason: "too many connections whose requests are read"},
		held:      limit{max: maxHeld, reason: "too many connections wait for a person's answer"},
		datagrams: limit{max: maxDatagramFlows, reason: "too many UDP flows"},
		pings:     limit{max: maxPings, reason: "too many pings"},
		queries:   limit{max: maxQueries},
		names:     names.NewBudget(),
		speed:     rate.NewLimiter(rate.Inf, speedBurst),
	}
}

// set applies an agent's limits.
func (b *budget) set(l Limits) {
	speed := rate.Inf
	if l.BytesPerSecond > 0 {
		speed = rate.Limit(l.BytesPerSecond)
	}
	if b.speed.Limit() != speed {
		b.speed.SetLimit(speed)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.perDay = l.BytesPerDay
}

// spend counts bytes and waits as the speed demands. It reports whether those of the day are used up.
func (b *budget) spend(ctx context.Context, n int) (over bool) {
	if _, over = b.count(n, time.Now()); over {
		return true
	}
	for ; n > 0; n -= speedBurst {
		if b.speed.WaitN(ctx, min(n, speedBurst)) != nil {
			break
		}
	}
	return false
}

// count adds bytes to those of the day. If they are used up, it returns what a refusal says.
func (b *budget) count(n int, now time.Time) (d policy.Decision, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if day := now.Unix() / int64(24*time.Hour/time.Second); day != b.day {
		b.day, b.ofTheDay = day, 0
	}
	b.ofTheDay += int64(n)
	if b.perDay == 0 || b.ofTheDay < b.perDay {
		return d, false
	}
	reason := fmt.Sprintf("the agent has used up today's %d MB (limits.networkMBPerDay)", b.perDay>>20)
	advice := fmt.Sprintf("osaurus-sandbox agent set NAME limits.networkMBPerDay=%d", 2*b.perDay>>20)
	return policy.Decision{Action: policy.Deny, Reason: reason, Advice: advice}, true
}

// exhausted decides for an agent that has used up its bytes of the day.
type exhausted policy.Decision

func (d exhausted) Decide(policy.Target, time.Time) policy.Decision { return policy.Decision(d) }
func (d exhausted) Resolve(string, time.Time) policy.Decision       { return policy.Decision(d) }
func (exhausted) ByName() bool                                      { return false }
func (exhausted) HasNames(time.Time) bool                           { return false }
func (exhausted) Opened(policy.Target, time.Time) bool              { return false }
