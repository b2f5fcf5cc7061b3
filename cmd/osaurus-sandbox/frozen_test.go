package main

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

// testFrozen stops the machine of the session's sandbox. A hundred callers are
// answered all the while, and those who follow the events are told at once.
func testFrozen(t *testing.T) {
	const (
		callers = 100
		every   = 500 * time.Millisecond
		bound   = time.Second           // of a status
		prompt  = 50 * time.Millisecond // of an event
		// hops are the turns that an event waits for, the watchdog's, the
		// journal's, the stream's and this test's, and some to spare.
		hops = 20
	)
	home, err := config.FindHome()
	if err != nil {
		t.Fatal(err)
	}
	client, err := control.Connect(t.Context(), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	hello, err := client.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	machine := child(t, hello.Pid, "qemu-system")
	events, err := client.Events(t.Context(), connect.NewRequest(&controlpb.EventsRequest{Follow: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()

	var frozen atomic.Bool
	frozen.Store(true)
	var all sync.WaitGroup
	took := make([][]time.Duration, callers)
	began := time.Now()
	if err := syscall.Kill(machine, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer all.Wait()
	defer frozen.Store(false)
	defer syscall.Kill(machine, syscall.SIGCONT) // whatever happens
	for i := range callers {
		all.Go(func() {
			for frozen.Load() {
				time.Sleep(rand.N(every))
				asked := time.Now()
				if _, err := client.Status(t.Context(), connect.NewRequest(&controlpb.StatusRequest{})); err != nil {
					t.Error(err)
				}
				took[i] = append(took[i], time.Since(asked))
			}
		})
	}
	var lag time.Duration // the longest that this process waited for its turn
	all.Go(func() {
		for frozen.Load() {
			const nap = time.Millisecond
			asleep := time.Now()
			time.Sleep(nap)
			lag = max(lag, time.Since(asleep)-nap)
		}
	})
	late := become(t, events, "unresponsive", began)
	if after := time.Since(began); after > seenWithin {
		t.Errorf("its silence was noticed after %v", after)
	}
	frozen.Store(false)
	all.Wait()
	if err := syscall.Kill(machine, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	become(t, events, "running", began)
	each := slices.Concat(took...)
	slices.Sort(each)
	p99 := each[len(each)*99/100]
	t.Logf("%d answers, p99 %v; the event came after %v, on a host that wakes a sleeper up to %v late", len(each), p99, late, lag)
	// Where a mere sleeper, who asks nothing of the daemon, wakes so late that
	// the turns alone take longer, it is the host that is slow.
	if p99 > max(bound, hops*lag) {
		t.Errorf("p99 of a status is %v, on a host that wakes a sleeper up to %v late", p99, lag)
	}
	if late > max(prompt, hops*lag) {
		t.Errorf("the event came after %v, on a host that wakes a sleeper up to %v late", late, lag)
	}
}

// become waits for an event of a state after a moment and returns how late it came.
func become(t *testing.T, events *connect.ServerStreamForClient[controlpb.EventsResponse], state string, after time.Time) time.Duration {
	t.Helper()
	for events.Receive() {
		if e := events.Msg(); e.Time.AsTime().After(after) && e.Fields["to"] == state {
			return time.Since(e.Time.AsTime())
		}
	}
	t.Fatalf("it never became %s: %v", state, events.Err())
	return 0
}

// child is the process of this name that another has started.
func child(t *testing.T, parent int32, name string) int {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(int(parent)), name).Output()
	if err != nil {
		t.Fatalf("pgrep: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
