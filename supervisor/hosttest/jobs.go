package hosttest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
)

// jobs are commands of this host that nobody waits for.
type jobs struct {
	guest *Guest

	mu  sync.Mutex
	all map[config.JobID]*job
	ran sync.WaitGroup
}

type job struct {
	guest.Job
	cmd    *exec.Cmd
	out    bytes.Buffer
	change chan struct{} // closed and replaced with everything new
}

// StartJob implements supervisor.Jobs, as the methods below.
func (s *jobs) StartJob(_ context.Context, c guest.JobCommand) (guest.Job, error) {
	if err := s.guest.enter(string(c.User)); err != nil {
		return guest.Job{}, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	j := &job{cmd: exec.Command(c.Args[0], c.Args[1:]...), change: make(chan struct{})}
	j.cmd.Env, j.cmd.Dir = append(j.cmd.Environ(), c.Env...), c.Dir
	out := writer(func(b []byte) (int, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		j.out.Write(b)
		j.Written += uint64(len(b))
		j.changed()
		return len(b), nil
	})
	j.cmd.Stdout, j.cmd.Stderr = out, out
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := j.cmd.Start(); err != nil {
		return guest.Job{}, fault.New(fault.NotFound, "start job", c.Args[0], err)
	}
	j.Job = guest.Job{
		ID: config.JobID(hex.EncodeToString(id[:])), User: string(c.User), Args: c.Args, Label: c.Label,
		Running: true, PID: j.cmd.Process.Pid, Started: time.Now(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[config.JobID]*job{}
	}
	s.all[j.ID] = j
	s.ran.Go(func() {
		_ = j.cmd.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		j.Running, j.Ended = false, time.Now()
		if status := j.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
			j.Signal = guest.HostSignal(status.Signal())
		} else {
			j.Code = status.ExitStatus()
		}
		j.changed()
	})
	return j.Job, nil
}

// changed wakes who waits. The lock is held.
func (j *job) changed() {
	close(j.change)
	j.change = make(chan struct{})
}

// await returns a job once it is as somebody wants it, or the wait is over. The
// lock is held when it returns.
func (s *jobs) await(ctx context.Context, user config.LinuxUser, id config.JobID, wait time.Duration, fine func(*job) bool) (*job, error) {
	over := time.After(wait)
	for waited := false; ; {
		s.mu.Lock()
		j := s.all[id]
		switch {
		case j == nil || j.User != string(user):
			return nil, fault.New(fault.NotFound, "find job", string(id), errors.New("there is none")).Advise("Start it anew.")
		case waited || wait == 0 || fine(j):
			return j, nil
		}
		change := j.change
		s.mu.Unlock()
		select {
		case <-change:
		case <-over:
			waited = true
		case <-ctx.Done():
			waited = true
		case <-s.guest.done:
			s.mu.Lock()
			return nil, fault.New(fault.Unavailable, "find job", string(id), errors.New("the connection was lost"))
		}
	}
}

// Jobs lists them, the newest first.
func (s *jobs) Jobs(_ context.Context, user config.LinuxUser) (list []guest.Job, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.all {
		if j.User == string(user) {
			list = append(list, j.Job)
		}
	}
	slices.SortFunc(list, func(x, y guest.Job) int { return cmp.Compare(y.Started.UnixNano(), x.Started.UnixNano()) })
	return list, nil
}

func (s *jobs) Job(ctx context.Context, user config.LinuxUser, id config.JobID) (guest.Job, error) {
	return s.WaitJob(ctx, user, id, 0)
}

func (s *jobs) WaitJob(ctx context.Context, user config.LinuxUser, id config.JobID, wait time.Duration) (guest.Job, error) {
	j, err := s.await(ctx, user, id, wait, func(j *job) bool { return !j.Running })
	defer s.mu.Unlock()
	if err != nil {
		return guest.Job{}, err
	}
	return j.Job, nil
}

func (s *jobs) KillJob(ctx context.Context, user config.LinuxUser, id config.JobID, hard bool) (guest.Job, error) {
	j, err := s.await(ctx, user, id, 0, nil)
	defer s.mu.Unlock()
	if err != nil {
		return guest.Job{}, err
	}
	how := syscall.SIGTERM
	if hard {
		how = syscall.SIGKILL
	}
	if j.Running {
		j.Killed = true
		_ = syscall.Kill(-j.PID, how)
	}
	return j.Job, nil
}

func (s *jobs) TailJob(ctx context.Context, user config.LinuxUser, id config.JobID, offset uint64, wait time.Duration) (guest.JobTail, error) {
	j, err := s.await(ctx, user, id, wait, func(j *job) bool { return !j.Running || j.Written > offset })
	defer s.mu.Unlock()
	if err != nil {
		return guest.JobTail{}, err
	}
	const most = 64 << 10
	offset = min(offset, j.Written)
	data := j.out.Bytes()[offset:]
	return guest.JobTail{Data: bytes.Clone(data[:min(len(data), most)]), Offset: offset, Job: j.Job}, nil
}

func (s *jobs) TailJobEnd(ctx context.Context, user config.LinuxUser, id config.JobID, n uint64) (guest.JobTail, error) {
	j, err := s.Job(ctx, user, id)
	if err != nil {
		return guest.JobTail{}, err
	}
	return s.TailJob(ctx, user, id, j.Written-min(n, j.Written), 0)
}

// end kills what runs, as the end of a machine does.
func (s *jobs) end() {
	s.mu.Lock()
	for _, job := range s.all {
		if job.Running {
			_ = syscall.Kill(-job.PID, syscall.SIGKILL)
		}
	}
	s.mu.Unlock()
	s.ran.Wait()
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
