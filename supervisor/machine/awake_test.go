package machine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"osaurus-sandbox/engine"
)

// TestStaysAwake: this computer stays awake while commands run, and a minute longer, once
// however many they are.
func TestStaysAwake(t *testing.T) {
	inWorld(t, `{}`, func(*fakeBackend) {}, func(t *testing.T, w *world) {
		want := func(when string, n int32) {
			t.Helper()
			synctest.Wait()
			if got := w.awake.Load(); got != n {
				t.Errorf("%s: %d assertions are held, want %d", when, got, n)
			}
		}
		want("at rest", 0)
		w.must(w.Start(t.Context(), by))
		time.Sleep(2 * time.Minute)
		want("idle", 0)
		var running []engine.Process
		for range 2 {
			p, err := w.Exec(t.Context(), engine.Command{Args: []string{"10m"}})
			w.must(err)
			running = append(running, p)
		}
		time.Sleep(9 * time.Minute)
		want("at work", 1)
		for _, p := range running {
			_, err := p.Wait()
			w.must(err)
		}
		want("just done", 1)
		time.Sleep(30 * time.Second)
		_, err := w.Exec(t.Context(), engine.Command{Args: []string{"10ms"}})
		w.must(err)
		time.Sleep(45 * time.Second)
		want("used again meanwhile", 1)
		time.Sleep(time.Minute)
		want("idle again", 0)
	})
}
