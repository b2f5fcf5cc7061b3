//go:build linux

package job

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
)

// slow is a place that blocks Enter.
type slow struct{ entering, enter chan struct{} }

func (s slow) Enter() error {
	close(s.entering)
	<-s.enter
	return nil
}
func (slow) Credential() *syscall.Credential { return nil }
func (slow) Cgroup() string                  { return "" }
func (slow) Mark() string                    { return "" }

type slowRoom struct {
	Room
	place process.Place
	logs  string
}

func (r slowRoom) Place(bool) process.Place       { return r.place }
func (slowRoom) Environment(bool) []string        { return nil }
func (slowRoom) Home() string                     { return "/" }
func (r slowRoom) JobLogs() (path, inside string) { return r.logs, r.logs }
func (slowRoom) Watch() func(bool) (oom, pids, quota bool) {
	return func(bool) (oom, pids, quota bool) { return false, false, false }
}

// A job whose room ends while it starts is not left for the next room of that user.
func TestForgottenWhileItStarts(t *testing.T) {
	const user = "agent-alice"
	processes, err := process.NewManager(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer processes.Close()
	logs, place := t.TempDir(), slow{make(chan struct{}), make(chan struct{})}
	k := NewManager(processes, func(context.Context, string) (Room, error) { return slowRoom{place: place, logs: logs}, nil })
	started := make(chan error, 1)
	go func() {
		_, err := k.StartJob(t.Context(), &guestpb.StartJobRequest{User: user, Args: [][]byte{[]byte("/bin/sleep"), []byte("1000")}})
		started <- err
	}()
	<-place.entering
	forgotten := make(chan struct{})
	go func() { defer close(forgotten); k.Forget(user) }()
	select {
	case <-forgotten:
		t.Error("a job that starts was not awaited")
	case <-time.After(50 * time.Millisecond):
	}
	close(place.enter)
	if err := <-started; err != nil {
		t.Error(err)
	}
	<-forgotten
	if list, err := k.ListJobs(t.Context(), &guestpb.ListJobsRequest{User: user}); err != nil || len(list.Jobs) > 0 {
		t.Errorf("%v, %v", list.GetJobs(), err)
	}
	if left, _ := filepath.Glob(logs + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
