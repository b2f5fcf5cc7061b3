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
	// An agent's day is the last 24 hours, counted in parts, so that what it had is
	// forgotten part by part.
	dayParts   = 24
	partLength = time.Hour
)

// day is what an agent had in the last 24 hours, since the daemon began.
type day struct {
	mu    sync.Mutex
	parts [dayParts]part // a ring: an hour's part is at the hour modulo dayParts
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

// begin counts one more request, or says that the agent had all of its day.
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
		Advise("Wait, or have a person raise it: osaurus-sandbox config set inference.tokensPerDay=…, inference.requestsPerDay=….")
}

// spend counts tokens.
func (d *day) spend(tokens int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now().tokens += tokens
}

// now is the part of this hour.
func (d *day) now() *part {
	hour := int64(time.Since(time.Unix(0, 0)) / partLength)
	p := &d.parts[hour%dayParts]
	if p.hour != hour {
		*p = part{hour: hour}
	}
	return p
}
