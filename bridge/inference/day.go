package inference

import (
	"fmt"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// Usage is counted per hour, so that each hour's share expires on its own.
	dayParts   = 24
	partLength = time.Hour
)

// day counts an agent's usage in the last 24 hours. It is lost when the daemon restarts.
type day struct {
	mu    sync.Mutex
	parts [dayParts]part // a ring, indexed by hour modulo dayParts
}

type part struct {
	hour             int64 // since 1970
	requests, tokens int
}

func (s *Service) day(agent config.AgentID) *day {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.days[agent] == nil {
		s.days[agent] = new(day)
	}
	return s.days[agent]
}

// begin counts a request, or fails if the agent has reached a daily limit.
func (d *day) begin(limit config.Inference) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	var requests, tokens int
	oldest := now.hour
	for _, p := range d.parts {
		if p.requests+p.tokens > 0 && p.hour > now.hour-dayParts {
			requests, tokens, oldest = requests+p.requests, tokens+p.tokens, min(oldest, p.hour)
		}
	}
	why := ""
	switch {
	case limit.RequestsPerDay > 0 && requests >= limit.RequestsPerDay:
		why = fmt.Sprintf("%d chats a day", limit.RequestsPerDay)
	case limit.TokensPerDay > 0 && tokens >= limit.TokensPerDay:
		why = fmt.Sprintf("%d tokens a day", limit.TokensPerDay)
	default:
		now.requests++
		return nil
	}
	after := time.Until(time.Unix(0, 0).Add(time.Duration(oldest+dayParts) * partLength))
	return fault.New(fault.Rejected, op, "", &bridge.Limited{Why: why, After: after}).
		Advise("Wait, or ask a person to raise it: osaurus-sandbox config set inference.tokensPerDay=…, inference.requestsPerDay=….")
}

// spend adds tokens to the current hour.
func (d *day) spend(tokens int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now().tokens += tokens
}

// now returns the current hour's part.
func (d *day) now() *part {
	hour := int64(time.Since(time.Unix(0, 0)) / partLength)
	p := &d.parts[hour%dayParts]
	if p.hour != hour {
		*p = part{hour: hour}
	}
	return p
}
