package progress_test

import (
	"errors"
	"testing"
	"time"

	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/timetest"
)

func TestTracker(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		changes := 0
		tracker := progress.NewTracker(func() { changes++ })
		check := func(i int, want progress.Step) {
			t.Helper()
			if got := tracker.Status().Steps[i]; got != want {
				t.Errorf("step is %+v, want %+v", got, want)
			}
		}
		if err := tracker.Do(progress.StepPack, func(report progress.Func) error {
			time.Sleep(20 * time.Second)
			check(0, progress.Step{Name: progress.StepPack, State: progress.InProgress, Took: 20 * time.Second})
			meter := report.Start("download it", 0, 1000)
			time.Sleep(10 * time.Second)
			_, err := meter.Write(make([]byte, 100))
			check(0, progress.Step{Name: progress.StepPack, State: progress.InProgress, Detail: "download it",
				Done: 100, Total: 1000, Rate: 10, Took: 30 * time.Second, Left: 90 * time.Second})
			report.Note("a word")
			return err
		}); err != nil {
			t.Error(err)
		}
		check(0, progress.Step{Name: progress.StepPack, State: progress.Completed, Took: 30 * time.Second})
		check(1, progress.Step{Name: progress.StepImage, State: progress.Pending})
		tracker.Skip(progress.StepToolbox, "none is wanted")
		check(2, progress.Step{Name: progress.StepToolbox, State: progress.Skipped, Detail: "none is wanted"})
		failed := errors.New("no room")
		if err := tracker.Do(progress.StepDisk, func(progress.Func) error { return failed }); err != failed {
			t.Errorf("Do: %v", err)
		}
		check(3, progress.Step{Name: progress.StepDisk, State: progress.Failed, Detail: "no room"})
		if notes := tracker.Status().Notes; len(notes) != 1 || changes < 6 {
			t.Errorf("notes %q, %d changes", notes, changes)
		}
	})
}
