//go:build linux

package job

import (
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
)

// TestSlowDisk: where the log of a job that is forgotten takes long to remove, whoever starts
// another waits for it, and nobody else.
func TestSlowDisk(t *testing.T) {
	const user, patience = "agent-alice", 30 * time.Second
	k := NewKeeper(Options{})
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
	if oldest.log.now != nil {
		t.Error("its log is there")
	}
}
