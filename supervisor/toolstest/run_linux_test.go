package toolstest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/toolstest"
	"osaurus-sandbox/tools"
	"osaurus-sandbox/vm"
)

// TestWithoutARoom makes the calls that need no more than files: on this host. All are
// made in real guests, by TestRooms of package launch.
func TestWithoutARoom(t *testing.T) {
	b := new(hosttest.Backend)
	toolstest.Run(t, world(t, b, b), toolstest.Host)
}

// TestReadOn: whoever goes on where an answer says that the rest begins has read all of a
// file, whatever is in it and however it is read.
func TestReadOn(t *testing.T) {
	const text = "one\nzwei ä€😀 and more\n\n" + "\xff\xfe\xe2\x82" + "three\n" + "a line that is longer than what is answered\nno end"
	b := new(hosttest.Backend)
	w := world(t, b, b)
	a := w.Agent(t, "ada", nil)
	if err := os.WriteFile(filepath.Join(w.Home.AgentHome("ada"), "f"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{`"max_chars":1`, `"max_chars":7`, `"line_count":1`, `"line_count":2,"max_chars":30`, `"max_chars":1000`} {
		var all string
		at, calls := 0, 0
		for more := true; more; calls++ {
			e := w.Tools.Call(t.Context(), tools.Call{Agent: a}, "sandbox_read_file", fmt.Appendf(nil, `{"path":"f","offset":%d,%s}`, at, how))
			var got struct {
				Result struct {
					Content    string
					NextOffset int `json:"next_offset"`
				}
			}
			if err := json.Unmarshal([]byte(e.Text()), &got); err != nil || !e.OK() || calls > len(text) {
				t.Fatalf("%s: %v, %s", how, err, e.Text())
			}
			all += got.Result.Content
			at, more = got.Result.NextOffset, got.Result.NextOffset > 0
		}
		// How many signs stand for what is no text is not told.
		if strings.ReplaceAll(all, "\uFFFD", "") != strings.ToValidUTF8(text, "") {
			t.Errorf("%s: in %d calls %q", how, calls, all)
		}
	}
}

// TestCallWaitsForTheGuest: a call to a sandbox that is stopped starts it, is told
// how far that is, and then runs.
func TestCallWaitsForTheGuest(t *testing.T) {
	b := &slow{Backend: new(hosttest.Backend), boot: make(chan struct{})}
	w := world(t, b.Backend, b)
	call := tools.Call{Agent: w.Agent(t, "ada", nil), Tell: func(p tools.Progress) {
		if p.Text == "the sandbox is starting: disk, make the disk" {
			b.release() // not before whoever called was told
		}
	}}
	path := filepath.Join(w.Home.AgentHome("ada"), "notes.md")
	if err := os.WriteFile(path, []byte("Buy milk."), 0o644); err != nil {
		t.Fatal(err)
	}
	if e := w.Tools.Call(t.Context(), call, "sandbox_read_file", []byte(`{"path":"notes.md"}`)); !e.OK() || !strings.Contains(e.Text(), "Buy milk.") {
		t.Error(e.Text())
	}
}

// slow is a backend whose boot waits until it is released.
type slow struct {
	*hosttest.Backend
	boot chan struct{}
	once sync.Once
}

func (s *slow) release() { s.once.Do(func() { close(s.boot) }) }

func (s *slow) Boot(ctx context.Context, set config.Settings, tracker *progress.Tracker) (machine.Guest, boot.Machine, error) {
	err := tracker.Do(progress.StepDisk, func(report progress.Func) error {
		report(progress.Event{Step: "make the disk"})
		select {
		case <-s.boot:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return nil, boot.Machine{}, err
	}
	return s.Backend.Boot(ctx, set, tracker)
}

// TestGuestThatDoesNotStart: what is told of it says why, and what to do.
func TestGuestThatDoesNotStart(t *testing.T) {
	b := &hosttest.Backend{Broken: fault.Newf(fault.Unavailable, "boot", "", "there is no kernel").Advise("See `osaurus-sandbox doctor`.")}
	w := world(t, b, b)
	e := w.Tools.Call(t.Context(), tools.Call{Agent: w.Agent(t, "ada", nil)}, "sandbox_read_file", []byte(`{"path":"notes.md"}`))
	if f := e.Failure; f == nil || f.Kind != fault.Unavailable || !strings.Contains(f.Message, "there is no kernel. ") || !strings.Contains(f.Message, "osaurus-sandbox doctor") {
		t.Error(e.Text())
	}
}

// world is one over a guest that is this host.
func world(t *testing.T, host *hosttest.Backend, b machine.Backend) *toolstest.World {
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	host.Workspace = home.Workspace()
	return toolstest.New(t, toolstest.Options{Home: home, Backend: b, Folders: new(vm.Subtrees), Tokens: bridge.NewTokens()})
}
