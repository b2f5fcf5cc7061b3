package journey_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/journey"
)

func leg(t *testing.T, w *journey.Walk, step journey.Step) journey.Leg {
	t.Helper()
	for _, l := range w.Journey().Legs {
		if l.Step == step {
			return l
		}
	}
	t.Fatalf("no step %s", step)
	return journey.Leg{}
}

func TestJourney(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		changes := 0
		w := journey.Begin(journey.Durations{journey.Pack: time.Minute, journey.Boot: 10 * time.Second}, func() { changes++ })
		if left := w.Journey().Left; left != 70*time.Second {
			t.Errorf("at the beginning %v are left", left)
		}
		err := w.Do(journey.Pack, func(report progress.Func) error {
			time.Sleep(20 * time.Second)
			if l := leg(t, w, journey.Pack); l.Status != journey.InProgress || l.Took != 20*time.Second || l.Left != 40*time.Second {
				t.Errorf("after 20 s: %+v", l)
			}
			meter := report.Start("download it", 0, 1000)
			time.Sleep(10 * time.Second)
			if _, err := meter.Write(make([]byte, 100)); err != nil {
				t.Error(err)
			}
			// At this rate it takes longer than the last time.
			if l := leg(t, w, journey.Pack); l.Detail != "download it" || l.Done != 100 || l.Total != 1000 || l.Rate != 10 || l.Left != 90*time.Second {
				t.Errorf("of a download: %+v", l)
			}
			report.Note("a word")
			return nil
		})
		if l := leg(t, w, journey.Pack); err != nil || l.Status != journey.Completed || l.Took != 30*time.Second || l.Left != 0 {
			t.Errorf("completed: %+v, %v", l, err)
		}
		w.Skip(journey.Toolbox, "none is wanted")
		failed := errors.New("no room")
		if err := w.Do(journey.Disk, func(progress.Func) error { return failed }); err != failed {
			t.Errorf("Do: %v", err)
		}
		if l := leg(t, w, journey.Disk); l.Status != journey.Failed || l.Detail != "no room" {
			t.Errorf("failed: %+v", l)
		}
		if l := leg(t, w, journey.Toolbox); l.Status != journey.Skipped || l.Detail != "none is wanted" {
			t.Errorf("skipped: %+v", l)
		}
		j := w.Journey()
		if j.Left != 10*time.Second || len(j.Notes) != 1 || changes < 6 {
			t.Errorf("%+v, %d changes", j, changes)
		}
		if want := (journey.Durations{journey.Pack: 30 * time.Second, journey.Boot: 10 * time.Second}); !maps.Equal(w.Durations(), want) {
			t.Errorf("the next estimate is %v, want %v", w.Durations(), want)
		}
	})
}

func TestDurationsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "durations.json")
	if d := journey.Load(path); len(d) > 0 {
		t.Errorf("of no file: %v", d)
	}
	want := journey.Durations{journey.Boot: 2500 * time.Millisecond}
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	if got := journey.Load(path); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, damaged := range []string{"", "[]", `{"boot": "long"}`, `{"boot": -1, "pack": 1e300, "lunch": 3}`} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if d := journey.Load(path); len(d) > 0 {
			t.Errorf("of %s: %v", damaged, d)
		}
	}
}
