//go:build linux

// Package job runs the background commands of agents and logs their output.
package job

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/queue"
)

// maxEnded is how many ended jobs of a user are kept. The oldest are removed with their logs.
const maxEnded = 32

// Room is where a user's jobs run.
type Room interface {
	Place(root bool) process.Place
	PluginPlace(plugin config.PluginID, ownNetwork bool, address []byte) (process.Place, error)
	Environment(root bool) []string // of the login
	Home() string
	// JobLogs is a folder that only this process writes to. The room sees it read-only at inside.
	JobLogs() (path, inside string)
	// Watch returns a function that reports which of its limits the room has met since.
	Watch() func(killed bool) (oom, pids, quota bool)
}

// Find returns the room of a user. It fails with NotFound if there is none.
type Find func(ctx context.Context, user string) (Room, error)

// Manager runs the jobs of all users. It implements the service Jobs.
type Manager struct {
	processes *process.Manager
	room      Find
	turns     queue.Queues[string] // of users, to start jobs

	mu   sync.Mutex
	jobs map[config.JobID]*job
}

// NewManager returns a Manager without jobs.
func NewManager(processes *process.Manager, room Find) *Manager {
	return &Manager{processes: processes, room: room, jobs: map[config.JobID]*job{}}
}

// StartJob starts a job. A user's jobs start one after the other.
func (m *Manager) StartJob(ctx context.Context, r *guestpb.StartJobRequest) (*guestpb.StartJobResponse, error) {
	give, err := m.turns.Take(ctx, r.User, nil)
	if err != nil {
		return nil, err
	}
	defer give()
	room, err := m.room(ctx, r.User)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // of a guest that was frozen, or a slow room
		return nil, fault.Newf(fault.KindOf(err), "start job", "", "the caller gave up: %w", err)
	}
	m.mu.Lock()
	running, ended := m.of(r.User)
	m.mu.Unlock()
	if len(running) >= config.MaxJobs {
		return nil, fault.Newf(fault.Rejected, "start job", "", "%d jobs are running", len(running)).
			Advise("Wait until one has ended, or kill one.")
	}
	j := newJob(r)
	if err := m.launch(j, room, r); err != nil {
		j.log.remove()
		return nil, err
	}
	old := ended[min(len(ended), maxEnded-1):]
	m.mu.Lock()
	for _, o := range old {
		delete(m.jobs, o.id)
	}
	m.jobs[j.id] = j
	m.mu.Unlock()
	for _, o := range old {
		o.log.remove() // without the lock, because a busy disk is slow
	}
	if err := ctx.Err(); err != nil { // starting took long and the caller does not know the id
		j.kill(true)
		return nil, fault.Newf(fault.KindOf(err), "start job", "", "the caller has gone: %w", err)
	}
	return &guestpb.StartJobResponse{Job: j.describe()}, nil
}

// of returns a user's jobs, newest first. The caller holds the lock.
func (m *Manager) of(user string) (running, ended []*job) {
	for _, j := range m.jobs {
		switch {
		case j.user != user:
		case j.running():
			running = append(running, j)
		default:
			ended = append(ended, j)
		}
	}
	newest := func(a, b *job) int { return cmp.Or(b.started.Compare(a.started), cmp.Compare(a.id, b.id)) }
	slices.SortFunc(running, newest)
	slices.SortFunc(ended, newest)
	return running, ended
}

// launch starts the job's process.
func (m *Manager) launch(j *job, room Room, r *guestpb.StartJobRequest) error {
	name := string(j.id) + ".log"
	logs, inside := room.JobLogs()
	if err := j.log.open(filepath.Join(logs, name)); err != nil {
		return err
	}
	j.logFile = filepath.Join(inside, name)
	met := room.Watch()
	place := room.Place(false)
	if r.Plugin != "" {
		var err error
		if place, err = room.PluginPlace(config.PluginID(r.Plugin), r.OwnNetwork, r.Address); err != nil {
			return err
		}
	}
	var err error
	j.child, err = m.processes.Start(process.Spec{
		Args: protocol.Texts(r.Args), Env: process.MergeEnv(room.Environment(false), protocol.Texts(r.Env)), Dir: protocol.Folder(room.Home(), r.Dir),
		Streams: [3]process.Stream{process.Null, process.Pipe, process.Same}, Place: place,
	})
	if err == nil {
		go j.follow(met)
	}
	return err
}

// ListJobs lists a user's jobs: running ones first, then ended ones, newest first.
func (m *Manager) ListJobs(_ context.Context, r *guestpb.ListJobsRequest) (*guestpb.ListJobsResponse, error) {
	m.mu.Lock()
	running, ended := m.of(r.User)
	m.mu.Unlock()
	list := &guestpb.ListJobsResponse{}
	for _, j := range append(running, ended...) {
		list.Jobs = append(list.Jobs, j.describe())
	}
	return list, nil
}

// WaitJob returns when a job has ended or the timeout is over.
func (m *Manager) WaitJob(ctx context.Context, r *guestpb.WaitJobRequest) (*guestpb.WaitJobResponse, error) {
	j, err := m.find(r.User, r.Id)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Duration(r.TimeoutNanos))
	defer timer.Stop()
	select {
	case <-j.done:
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &guestpb.WaitJobResponse{Job: j.describe()}, nil
}

// KillJob signals all processes of a job.
func (m *Manager) KillJob(_ context.Context, r *guestpb.KillJobRequest) (*guestpb.KillJobResponse, error) {
	j, err := m.find(r.User, r.Id)
	if err != nil {
		return nil, err
	}
	if j.running() {
		j.kill(r.Hard)
	}
	return &guestpb.KillJobResponse{Job: j.describe()}, nil
}

// TailJob reads a part of a job's output.
func (m *Manager) TailJob(ctx context.Context, r *guestpb.TailJobRequest) (*guestpb.TailJobResponse, error) {
	j, err := m.find(r.User, r.Id)
	if err != nil {
		return nil, err
	}
	return j.tail(ctx, r)
}

// Forget ends and removes all jobs of a user whose room is about to end.
func (m *Manager) Forget(user string) {
	give, _ := m.turns.Take(context.Background(), user, nil) // a job that starts
	defer give()
	m.forget(func(j *job) bool { return j.user == user })
}

// Close ends all jobs.
func (m *Manager) Close() { m.forget(func(*job) bool { return true }) }

func (m *Manager) forget(which func(*job) bool) {
	m.mu.Lock()
	var chosen []*job
	for id, j := range m.jobs {
		if which(j) {
			chosen = append(chosen, j)
			delete(m.jobs, id)
		}
	}
	m.mu.Unlock()
	for _, j := range chosen {
		j.kill(true)
		<-j.done
		j.log.remove()
	}
}

// find returns a user's job. It does not find other users' jobs.
func (m *Manager) find(user, id string) (*job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[config.JobID(id)]
	if j == nil || j.user != user {
		return nil, fault.Newf(fault.NotFound, "find job", id, "no such job").
			Advise("Jobs end with their agent's room and with the guest; list them with `job list`.")
	}
	return j, nil
}

// newID makes an unguessable id.
func newID() config.JobID {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return config.JobID(hex.EncodeToString(b))
}
