package tools

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// turnLife is how long a turn without calls is remembered. No turn takes that long.
	turnLife = time.Hour
	// maxTurns bounds the remembered turns. If there are more, all are forgotten.
	maxTurns = 4096
	// maxTurnName bounds a turn's name. Longer names are cut, so turns with the same beginning
	// share a count.
	maxTurnName = 128
)

// turns counts commands per agent and turn. The zero value is ready.
type turns struct {
	mu   sync.Mutex
	used map[turn]*tally
}

type turn struct {
	agent config.AgentID
	name  string
}

type tally struct {
	count int
	last  time.Time
}

// take counts a command and fails if the turn has reached its limit. Calls without a turn are not
// counted.
func (t *turns) take(agent config.AgentID, name string, limit int) error {
	if name == "" || limit == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	key := turn{agent, name[:min(len(name), maxTurnName)]}
	of := t.used[key]
	if of == nil {
		t.forget(now)
		of = &tally{}
		t.used[key] = of
	}
	if of.count >= limit {
		return &Failure{Kind: fault.Rejected, Message: fmt.Sprintf(
			"this turn has reached its limit of %d commands (the agent's setting maxCommandsPerTurn). Tell the person how far you came, and go on in the next turn", limit)}
	}
	of.count, of.last = of.count+1, now
	return nil
}

// forget removes old turns to make room for one more.
func (t *turns) forget(now time.Time) {
	maps.DeleteFunc(t.used, func(_ turn, of *tally) bool { return now.Sub(of.last) > turnLife })
	if t.used == nil || len(t.used) >= maxTurns {
		t.used = map[turn]*tally{}
	}
}
