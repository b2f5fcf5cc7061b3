package sessions

import (
	"context"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/machine"
)

// hasty is a guest that says of every job at once that it runs and has written nothing,
// however long it is to wait.
type hasty struct {
	engine.Room
	asked int
}

func (h *hasty) ask(ctx context.Context) (engine.Job, error) {
	if h.asked++; h.asked > 1000 {
		<-ctx.Done() // it has been shown
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

// inGuest is a guest whose jobs these are.
type inGuest struct {
	machine.Guest
	are *hasty
}

func (g inGuest) Room(config.LinuxUser) engine.Room { return g.are }
func (inGuest) Done() <-chan struct{}               { return nil }

// A guest that was taken over has nobody ask it without a pause, and who waits for a while
// waits no longer for that.
func TestHastyGuest(t *testing.T) {
	for name, asks := range map[string]func(context.Context, *hasty){
		"a job that was started": func(ctx context.Context, h *hasty) {
			t := &Terminals{Options: Options{Record: nobody{}}, life: ctx}
			t.follow(&machine.Lease{Guest: inGuest{are: h}}, agents.Agent{}, engine.Job{ID: "j", Running: true})
		},
		"one that is waited for": func(ctx context.Context, h *hasty) { _, _ = waitJob(ctx, h, "j", 0) },
		"for a while":            func(ctx context.Context, h *hasty) { _, _ = waitJob(ctx, h, "j", 9500*time.Millisecond) },
		"one that is read": func(ctx context.Context, h *hasty) {
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
				if took := time.Since(began); h.asked < 10 || h.asked > 13 || took > long || name == "for a while" && took != 9500*time.Millisecond {
					t.Errorf("in %v it was asked %d times", took, h.asked)
				}
			})
		})
	}
}
