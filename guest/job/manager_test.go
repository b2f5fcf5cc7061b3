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
	"osaurus-sandbox/internal/fault"
)

// TestSlowDisk: where the log of a job that is forgotten takes long to remove, whoever starts
// another waits for it, and nobody else.
func TestSlowDisk(t *testing.T) {
	const user, patience = "agent-alice", 30 * time.Second
	k := NewManager(Options{})
	var oldest *job
	for n := range maxEnded {
		j := newJob(&guestpb.StartJobRequest{User: user})
		j.started = j.started.Add(time.Duration(n) * time.Second)
		j.child = new(process.Child)
		if err := j.log.open(filepath.Join(t.TempDir(), "log")); err != nil {
			t.Fatal(err)
		}
		defer j.log.remove()
		close(j.done)
		k.jobs[j.id] = j
		if oldest == nil {
			oldest = j
		}
	}
	oldest.log.mu.Lock() // as the disk would
	added := make(chan error, 1)
	go func() {
		_, err := k.add(&guestpb.StartJobRequest{User: user})
		added <- err
	}()
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for there := true; there; time.Sleep(time.Millisecond) {
			k.mu.Lock()
			there = k.jobs[oldest.id] != nil
			k.mu.Unlock()
		}
	}()
	select {
	case <-seen:
	case <-time.After(patience):
		t.Error("all wait for it")
	}
	oldest.log.mu.Unlock()
	if err := <-added; err != nil {
		t.Error(err)
	}
	if oldest.log.file != nil {
		t.Error("its log is there")
	}
}

// slow is a place that takes its time to enter.
type slow struct{ entering, enter chan struct{} }

func (s slow) Enter() error {
	close(s.entering)
	<-s.enter
	return nil
}
func (slow) Credential() *syscall.Credential { return nil }
func (slow) Cgroup() string                  { return "" }

// TestForgottenWhileItStarts: a job whose room ends while it starts does not stay in the list, for whoever
// has a room under that name next.
func TestForgottenWhileItStarts(t *testing.T) {
	const user = "agent-alice"
	processes, err := process.NewManager(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer processes.Close()
	logs, place := t.TempDir(), slow{make(chan struct{}), make(chan struct{})}
	k := NewManager(Options{Processes: processes, Find: func(context.Context, string) (Room, error) {
		return Room{Home: "/", Logs: logs, Place: place, Met: func(bool) (bool, bool) { return false, false }}, nil
	}})
	started := make(chan error, 1)
	go func() {
		_, err := k.StartJob(t.Context(), &guestpb.StartJobRequest{User: user, Args: [][]byte{[]byte("/bin/sleep"), []byte("1000")}})
		started <- err
	}()
	<-place.entering
	k.Forget(user)
	close(place.enter)
	if err := <-started; fault.KindOf(err) != fault.Unavailable {
		t.Error(err)
	}
	if list, err := k.ListJobs(t.Context(), &guestpb.ListJobsRequest{User: user}); err != nil || len(list.Jobs) > 0 {
		t.Errorf("%v, %v", list.GetJobs(), err)
	}
	if left, _ := filepath.Glob(logs + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
