package network

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// What an agent and its plugins may have at a time. A flow costs the gateway two goroutines, a descriptor and
// what is under way, so these bound its memory.
const (
	// maxFlows is the number of TCP connections. A browser has at most 256.
	maxFlows = 256
	// maxHalfOpen is the number of connections that are being made: 32 workers of a package
	// manager for 4 programs.
	maxHalfOpen = 128
	// maxHeld is the number of connections for which a person is asked at a time.
	maxHeld = 32
	// maxDatagramFlows is the number of pairs of UDP ports.
	maxDatagramFlows = 128
	// maxPings and maxQueries bound echo requests and DNS queries that wait for an answer.
	maxPings   = 16
	maxQueries = 64
	// newFlowsPerSecond and newFlowsBurst bound new flows, refused ones too. A build that fetches
	// each file by a connection of its own stays below 500 a second.
	newFlowsPerSecond = 500
	newFlowsBurst     = 1000
)

// What all subjects may have together.
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
	// idleTimeout is RFC 5382's least for an established connection through a NAT, and
	// halfClosedTimeout is for one of which one direction has ended.
	idleTimeout       = 2*time.Hour + 4*time.Minute
	halfClosedTimeout = 10 * time.Minute
	// datagramTimeout is RFC 4787's recommendation for UDP, without port 53.
	datagramTimeout = 5 * time.Minute
	// firstBytesTimeout is how long a client whose name must be checked may stay silent while it
	// sends its first message.
	firstBytesTimeout = 30 * time.Second
	// pingTimeout is how long an echo reply may take.
	pingTimeout = 10 * time.Second
	// roomDialTimeout is how long a room may take to accept. It may be busy, but it is near.
	roomDialTimeout = 15 * time.Second
	// drainTimeout is how long a client may take to read the rest of a flow that has ended.
	drainTimeout = 30 * time.Second
	// addressRest is how long an address rests after Leave. It is longer than a flow of its last
	// owner lives on in somebody's log or cache.
	addressRest = 10 * time.Minute
	// sweepEvery is how often idle flows are looked for.
	sweepEvery = 5 * time.Second
)

// limit counts what is in use. What was taken must be given back.
type limit struct {
	max  int64
	used atomic.Int64
}

// take reports whether there was one left, and takes it.
func (l *limit) take() bool {
	if l.used.Add(1) > l.max {
		l.used.Add(-1)
		return false
	}
	return true
}

func (l *limit) give() { l.used.Add(-1) }

// budget is what an agent and its plugins may have together.
type budget struct {
	traffic                                          *traffic
	fresh                                            *rate.Limiter
	refusals                                         rate.Sometimes
	flows, halfOpen, held, datagrams, pings, queries limit
}

func newBudget() *budget {
	return &budget{
		traffic:   newTraffic(),
		fresh:     rate.NewLimiter(newFlowsPerSecond, newFlowsBurst),
		refusals:  rate.Sometimes{Interval: time.Second},
		flows:     limit{max: maxFlows},
		halfOpen:  limit{max: maxHalfOpen},
		held:      limit{max: maxHeld},
		datagrams: limit{max: maxDatagramFlows},
		pings:     limit{max: maxPings},
		queries:   limit{max: maxQueries},
	}
}
