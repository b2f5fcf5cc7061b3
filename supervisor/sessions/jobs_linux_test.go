package sessions

import (
	"context"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
)

// hasty is a hostile guest that answers each wait at once: the job runs and has written nothing.
type hasty struct {
	engine.Room
	asked int
}

func (h *hasty) ask(ctx context.Context) (engine.Job, error) {
	if h.asked++; h.asked > 1000 {
		<-ctx.Done() // enough to fail
	}
	return engine.Job{ID: "j", Running: true}, ctx.Err()
}

func (h *hasty) WaitJob(ctx context.Context, _ config.JobID, _ time.Duration) (engine.Job, error) {
	return h.ask(ctx)
}

func (h *hasty) TailJob(ctx context.Context, _ config.JobID, _ uint64, _ time.Duration) (engine.JobTail, error) {
	job, err := h.ask(ctx)
	return engine.JobTail{Job: job}, err
}

type hastyGuest struct {
	machine.Guest
	room *hasty
}

func (g hastyGuest) Room(config.LinuxUser) engine.Room { return g.room }
func (hastyGuest) Done() <-chan struct{}               { return nil }

// A hostile guest that answers at once is not asked without a pause, and a limited wait takes no longer.
func TestHastyGuest(t *testing.T) {
	for name, asks := range map[string]func(context.Context, *hasty){
		"following": func(ctx context.Context, h *hasty) {
			m := &Manager{Options: Options{Record: hosttest.Discard{}}, life: ctx}
			m.follow(&machine.Lease{Guest: hastyGuest{room: h}}, agents.Agent{}, engine.Job{ID: "j", Running: true})
		},
		"waiting":             func(ctx context.Context, h *hasty) { _, _ = waitJob(ctx, h, "j", 0) },
		"waiting for a while": func(ctx context.Context, h *hasty) { _, _ = waitJob(ctx, h, "j", 9500*time.Millisecond) },
		"reading": func(ctx context.Context, h *hasty) {
			out := &tailing{to: func(Part) error { return nil }}
			_, _ = out.follow(ctx, h, "j", Tail{Follow: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				const long = 10 * time.Second
				ctx, end := context.WithTimeout(t.Context(), long)
				defer end()
				h, began := &hasty{}, time.Now()
				asks(ctx, h)
				if took := time.Since(began); h.asked < 10 || h.asked > 13 || took > long || name == "waiting for a while" && took != 9500*time.Millisecond {
					t.Errorf("in %v it was asked %d times", took, h.asked)
				}
			})
		})
	}
}
