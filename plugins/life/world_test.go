package life

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/tools"
)

var alice = tools.Agent{ID: "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "alice", User: "agent-alice", Home: "/workspace/agents/alice"}

// world fakes a guest and a journal of events.
type world struct {
	*Life
	t *testing.T

	mu      sync.Mutex
	running bool // a guest
	boots   int
	trouble error // the error of every request
	silent  bool  // Silent
	kills   int
	late    bool // StartJob starts the job and times out
	deaf    bool // KillJob times out
	started []engine.JobCommand
	jobs    map[config.JobID]*job
	ran     []string // handlers, with their input
	hold    time.Duration
	exit    engine.Exit
	told    []bridge.Event
	changed notify.Notifier
	lines   []string
	failed  []string // calls of Options.Failed
}

type job struct {
	engine.Job
	ended chan struct{}
	once  sync.Once
	stays bool // ignores SIGTERM
}

// try runs a test in synthetic time.
func try(t *testing.T, f func(t *testing.T, w *world)) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := &world{t: t, running: true, jobs: map[config.JobID]*job{}}
		w.Life = New(Options{
			Room: w.Room, Boot: w.Boot, Silent: w.Silent, Events: w, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Secrets: func(_ context.Context, _ tools.Agent, _ config.PluginID, names []config.SecretName) (list []string, _ error) {
				for _, n := range names {
					list = append(list, string(n)+"=value")
				}
				return list, nil
			},
			Tell: func(_ context.Context, who bridge.Caller, level bridge.Level, text string) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.lines = append(w.lines, fmt.Sprintf("%s/%s %s %s", who.Name, who.Plugin, level, text))
				return nil
			},
			Failed: func(a tools.Agent, plugin config.PluginID, why error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.failed = append(w.failed, fmt.Sprintf("%s of %s: %v", plugin, a.Name, why))
			},
		})
		f(t, w)
		w.Close()
		w.stop()
	})
}

// stop ends the guest.
func (w *world) stop() {
	w.mu.Lock()
	w.running = false
	w.mu.Unlock()
	w.endRoom()
}

// boot starts a guest.
func (w *world) boot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = true
	w.boots++
}

// room is the room of every agent.
type room struct {
	unused
	*world
}

// unused has the methods that are not called.
type unused struct{ engine.Room }

// Room is Options.Room.
func (w *world) Room(tools.Agent) engine.Room { return room{world: w} }

// Boot is Options.Boot.
func (w *world) Boot() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		return ""
	}
	return fmt.Sprint("boot ", w.boots)
}

// fails sets the error of every request.
func (w *world) fails(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = err
}

// endRoom ends and forgets all jobs.
func (w *world) endRoom() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, j := range w.jobs {
		delete(w.jobs, id)
		j.once.Do(func() { close(j.ended) })
	}
}

func (w *world) absent() error {
	return fault.Newf(fault.Unavailable, "ask", "", "no guest runs")
}

// crash ends all jobs with a status.
func (w *world) crash(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		j.once.Do(func() {
			j.Running, j.Code = false, status
			close(j.ended)
		})
	}
}

func (w *world) StartJob(_ context.Context, cmd engine.JobCommand) (engine.Job, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		return engine.Job{}, w.absent()
	}
	if w.trouble != nil {
		return engine.Job{}, w.trouble
	}
	w.started = append(w.started, cmd)
	j := &job{Job: engine.Job{ID: config.JobID(fmt.Sprintf("%032x", len(w.started))), Label: cmd.Label, Plugin: cmd.Plugin, Running: true}, ended: make(chan struct{})}
	j.stays = strings.Contains(cmd.Args[len(cmd.Args)-1], "trap")
	w.jobs[j.ID] = j
	if w.late {
		return engine.Job{}, fault.Newf(fault.Timeout, "start job", "", "the guest does not answer")
	}
	return j.Job, nil
}

// Silent is Options.Silent.
func (w *world) Silent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.silent
}

func (w *world) Jobs(context.Context) (list []engine.Job, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		list = append(list, j.Job)
	}
	return list, w.trouble
}

func (w *world) WaitJob(ctx context.Context, id config.JobID, wait time.Duration) (engine.Job, error) {
	w.mu.Lock()
	j, trouble := w.jobs[id], w.trouble
	w.mu.Unlock()
	switch {
	case trouble != nil:
		return engine.Job{}, trouble
	case j == nil:
		return engine.Job{}, fault.New(fault.NotFound, "wait", string(id), nil)
	}
	select {
	case <-j.ended:
	case <-time.After(wait):
	case <-ctx.Done():
		return engine.Job{}, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.trouble != nil:
		return engine.Job{}, w.trouble
	case !w.running:
		return engine.Job{}, w.absent()
	case w.jobs[id] == nil:
		return engine.Job{}, fault.New(fault.NotFound, "wait", string(id), nil)
	}
	return j.Job, nil
}

func (w *world) KillJob(_ context.Context, id config.JobID, hard bool) (engine.Job, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kills++
	if w.deaf {
		return engine.Job{}, fault.New(fault.Timeout, "kill", string(id), nil)
	}
	j := w.jobs[id]
	if j == nil {
		return engine.Job{}, fault.New(fault.NotFound, "kill", string(id), nil)
	}
	if hard || !j.stays {
		j.once.Do(func() {
			j.Running, j.Killed = false, true
			close(j.ended)
		})
	}
	return j.Job, nil
}

func (w *world) TailJobEnd(context.Context, config.JobID, uint64) (engine.JobTail, error) {
	return engine.JobTail{Data: []byte("last words\n")}, nil
}

// live returns the number of running jobs.
func (w *world) live() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if j.Running {
			n++
		}
	}
	return n
}

func (w *world) starts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.started)
}

// handler is a running command.
type handler struct {
	engine.Process
	done chan struct{}
	exit engine.Exit
}

func (h handler) Wait() (engine.Exit, error) { <-h.done; return h.exit, nil }

func (w *world) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		return nil, w.absent()
	}
	if w.trouble != nil {
		return nil, w.trouble
	}
	var in bytes.Buffer
	_, _ = io.Copy(&in, cmd.Stdin)
	told := slices.DeleteFunc(slices.Clone(cmd.Env), func(v string) bool { return !strings.HasPrefix(v, "OSAURUS_EVENT") })
	w.ran = append(w.ran, strings.Join(append([]string{cmd.Args[len(cmd.Args)-1], in.String()}, told...), " "))
	h := handler{done: make(chan struct{}), exit: w.exit}
	hold := w.hold
	if hold > cmd.Timeout {
		hold, h.exit.TimedOut = cmd.Timeout, true
	}
	if h.exit.Code != 0 {
		fmt.Fprint(cmd.Stderr, "it hurts")
	}
	go func() {
		defer close(h.done)
		select {
		case <-time.After(hold):
		case <-ctx.Done():
		}
	}()
	return h, nil
}

func (w *world) handled() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.ran...)
}

func (w *world) emit(topic bridge.Topic, payload string) {
	w.mu.Lock()
	w.told = append(w.told, bridge.Event{Seq: bridge.EventSeq(len(w.told) + 1), Topic: topic, Payload: json.RawMessage(payload), Source: "sandbox:agent-alice", Time: time.Now()})
	w.mu.Unlock()
	w.changed.Notify()
}

func (w *world) Last(context.Context) (bridge.EventSeq, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bridge.EventSeq(len(w.told)), nil
}

func (w *world) Read(ctx context.Context, f bridge.EventFilter, _ bool) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		after := f.After
		for {
			more := w.changed.Next()
			w.mu.Lock()
			list := w.told[min(int(after), len(w.told)):]
			w.mu.Unlock()
			for _, e := range list {
				after = e.Seq
				if !yield(e, nil) {
					return
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(bridge.Event{}, ctx.Err())
				return
			}
		}
	}
}

func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}
