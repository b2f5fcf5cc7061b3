package audit

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// What nobody waits for is recorded with what comes next, before it; or alone, soon; or at
// once when somebody looks. An entry that fails with another has its own chance.
func TestFollow(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "db"))
	follow := func(subject string) {
		t.Helper()
		l.Follow(Entry{Client: "test", Action: "exec", Subject: subject, Outcome: OK}, func(err error) { t.Errorf("%s: %v", subject, err) })
	}
	follow("ended first")
	follow("ended second")
	if e := l.add(t, 1); e.Seq != 3 {
		t.Errorf("the next one is entry %d, not the third", e.Seq)
	}
	follow("ended third")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Record(over, Entry{Client: "test", Action: "exec", Outcome: Begun}); err == nil {
		t.Error("what nobody asks for any more was recorded")
	}
	var subjects []string
	for _, e := range l.list(t, Filter{}) {
		subjects = append(subjects, e.Subject)
	}
	if want := []string{"ended third", "0", "ended second", "ended first"}; !slices.Equal(subjects, want) {
		t.Errorf("%q instead of %q", subjects, want)
	}

	follow("ended last")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if noted, _, err := l.readNote(); err != nil || time.Now().After(end) {
			t.Fatalf("it does not come by itself: %+v, %v", noted, err)
		} else if noted.seq == 5 {
			break
		}
	}
	if p, err := l.Verify(t.Context()); err != nil || p.Entries != 5 {
		t.Errorf("%+v, %v", p, err)
	}

	told := make(chan error, 2)
	l.Follow(Entry{Action: "exec", Outcome: OK}, func(err error) { told <- err })
	if err := <-told; err == nil {
		t.Error("without a client")
	}
	l.db.Close()
	l.Follow(Entry{Client: "test", Action: "exec", Outcome: OK}, func(err error) { told <- err })
	if err := <-told; err == nil {
		t.Error("without a database")
	}
}
