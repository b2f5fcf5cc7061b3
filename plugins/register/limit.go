package register

import (
	"fmt"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// perMinute is how many plugins an agent registers in a minute: as many as a model mends one
	// in, and few enough that one in a loop keeps nobody's disk busy.
	perMinute = 10
	period    = time.Minute
	// busyAgain is when to try again what is being done already: most plugins install in that.
	busyAgain = 10 * time.Second
)

// windows count what each agent registers.
type windows struct {
	mu sync.Mutex
	of map[config.AgentID]*window
}

// window is when an agent registered last, the oldest first.
type window []time.Time

// take counts one more, or refuses it.
func (w *windows) take(agent config.AgentID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for id, taken := range w.of { // also of agents that are gone
		for len(*taken) > 0 && now.Sub((*taken)[0]) >= period {
			*taken = (*taken)[1:]
		}
		if len(*taken) == 0 {
			delete(w.of, id)
		}
	}
	taken := w.of[agent]
	if taken == nil {
		taken = &window{}
		w.of[agent] = taken
	}
	if len(*taken) >= perMinute {
		after := period - now.Sub((*taken)[0])
		return fault.New(fault.Rejected, op, "", &bridge.Limited{Why: fmt.Sprintf("%d plugins a minute", perMinute), After: after}).Advise("Wait, and register less often.")
	}
	*taken = append(*taken, now)
	return nil
}
