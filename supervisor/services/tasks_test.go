package services

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/store/storetest"
)

// queue is a Tasks with its own clock.
type queue struct {
	*Tasks
	t     testing.TB
	mu    sync.Mutex
	clock time.Time
	noted []string
}

func openTasks(t testing.TB) (q *queue, alice, bob bridge.Caller) {
	t.Helper()
	db, who := storetest.New(t, "alice", "bob")
	q = &queue{t: t, clock: time.Now()}
	q.Tasks = NewTasks(db, unchanged, func(e events.Event) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.noted = append(q.noted, string(e.Kind)+" "+e.Fields["agent"])
	})
	q.now = func() time.Time {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.clock
	}
	return q, who[0], who[1]
}

func (q *queue) pass(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.clock = q.clock.Add(d)
}

func (q *queue) dispatch(who bridge.Caller, text, key string) bridge.TaskID {
	q.t.Helper()
	id, err := q.Dispatch(q.t.Context(), who, text, key)
	if err != nil {
		q.t.Fatalf("%.50s: %v", text, err)
	}
	return id
}

// take leases a task at once.
func (q *queue) take(agent config.AgentID) (Task, Lease) {
	q.t.Helper()
	task, lease, ok, err := q.Lease(q.t.Context(), agent, "app", time.Minute, 0)
	if err != nil {
		q.t.Fatal(err)
	}
	if ok != (lease != "") || ok != (task.ID != "") {
		q.t.Fatalf("%v, %q, %+v", ok, lease, task)
	}
	return task, lease
}

func (q *queue) state(id bridge.TaskID) TaskState {
	q.t.Helper()
	task, err := q.Get(q.t.Context(), id)
	if err != nil {
		q.t.Fatal(err)
	}
	return task.State
}

func wantKind(t testing.TB, what string, err error, kind fault.Kind) {
	t.Helper()
	if err == nil && kind != "" || err != nil && (fault.KindOf(err) != kind || kind != "" && fault.AdviceOf(err) == "") {
		t.Errorf("%s: %v, want %q with advice", what, err, kind)
	}
}

func TestTask(t *testing.T) {
	q, alice, bob := openTasks(t)
	id := q.dispatch(alice, "do it", "")
	task, err := q.Get(t.Context(), bridge.TaskID(strings.ToLower(string(id))))
	if err != nil || task.Text != "do it" || task.State != TaskQueued || task.Name != "alice" || task.Source != "sandbox:agent-alice" || !task.Until.Equal(task.Created.Add(TaskTimeout)) {
		t.Errorf("%+v, %v", task, err)
	}
	if none, _ := q.take(bob.Agent); none.ID != "" {
		t.Errorf("bob has %+v", none)
	}
	task, lease := q.take(alice.Agent)
	if task.ID != id || task.State != TaskLeased || task.Attempts != 1 || task.Worker != "app" {
		t.Errorf("%+v", task)
	}
	if again, _ := q.take(alice.Agent); again.ID != "" {
		t.Errorf("it is leased twice: %+v", again)
	}
	q.pass(50 * time.Second)
	task, err = q.Renew(t.Context(), id, lease, time.Minute)
	wantKind(t, "renew", err, "")
	q.pass(50 * time.Second)
	if q.state(id) != TaskLeased {
		t.Errorf("%+v", task)
	}
	for range 2 {
		task, err = q.Complete(t.Context(), id, lease, "done so")
		wantKind(t, "complete", err, "")
		if task.State != TaskDone || task.Result != "done so" || task.Ended.IsZero() {
			t.Errorf("%+v", task)
		}
	}
	_, err = q.Fail(t.Context(), id, lease, "", true)
	wantKind(t, "fail what is done", err, fault.Rejected)
	_, err = q.Renew(t.Context(), id, lease, 0)
	wantKind(t, "renew what is done", err, fault.Rejected)
	if task, err = q.Cancel(t.Context(), id, "me"); err != nil || task.State != TaskDone {
		t.Errorf("cancelled: %+v, %v", task, err)
	}

	second := q.dispatch(bob, "not after all", "")
	_, lease = q.take("")
	if task, err = q.Cancel(t.Context(), second, "me"); err != nil || task.State != TaskCancelled {
		t.Errorf("cancelled: %+v, %v", task, err)
	}
	_, err = q.Complete(t.Context(), second, lease, "")
	wantKind(t, "complete what is cancelled", err, fault.Rejected)
	for what, lease := range map[string]Lease{"none": "", "another": "x"} {
		_, err = q.Complete(t.Context(), second, lease, "")
		wantKind(t, "with lease "+what, err, fault.Rejected)
	}
	_, err = q.Get(t.Context(), "no-such")
	wantKind(t, "no such task", err, fault.NotFound)
	if got := []string{"task.queued alice", "task.leased alice", "task.done alice", "task.queued bob", "task.leased bob", "task.cancelled bob"}; !slices.Equal(q.noted, got) {
		t.Errorf("noted %q", q.noted)
	}
}

func TestTaskTimeouts(t *testing.T) {
	q, alice, _ := openTasks(t)
	id := q.dispatch(alice, "hard", "")
	var leases []Lease
	for i := range MaxTaskAttempts {
		task, lease := q.take("")
		if task.ID != id || task.Attempts != i+1 {
			t.Fatalf("attempt %d: %+v", i, task)
		}
		leases = append(leases, lease)
		q.pass(time.Minute)
	}
	if task, _ := q.take(""); task.ID != "" || q.state(id) != TaskFailed {
		t.Errorf("after the last attempt: %+v", task)
	}
	_, err := q.Complete(t.Context(), id, leases[2], "")
	wantKind(t, "too late", err, fault.Rejected)

	// A late worker keeps its task until another one leases it.
	late := q.dispatch(alice, "slow", "")
	_, lease := q.take("")
	q.pass(time.Hour)
	if q.state(late) != TaskQueued {
		t.Error(q.state(late))
	}
	_, err = q.Renew(t.Context(), late, lease, time.Minute)
	wantKind(t, "renew late", err, "")
	q.pass(time.Hour)
	_, other := q.take("")
	_, err = q.Complete(t.Context(), late, lease, "")
	wantKind(t, "another has it", err, fault.Rejected)
	for range 2 {
		task, err := q.Fail(t.Context(), late, other, "again", true)
		wantKind(t, "fail", err, "")
		if task.State != TaskQueued || task.Result != "again" {
			t.Errorf("%+v", task)
		}
	}
	_, last := q.take("")
	if task, err := q.Fail(t.Context(), late, last, "no more", true); err != nil || task.State != TaskFailed || task.Result != "no more" {
		t.Errorf("%+v, %v", task, err)
	}

	old := q.dispatch(alice, "nobody cares", "")
	q.pass(TaskTimeout)
	if q.state(old) != TaskExpired {
		t.Error(q.state(old))
	}
	for _, bad := range []time.Duration{-1, time.Millisecond, MaxLease + 1} {
		_, _, _, err := q.Lease(t.Context(), "", "app", bad, 0)
		wantKind(t, bad.String(), err, fault.InvalidArgs)
	}
}

func TestTaskKey(t *testing.T) {
	q, alice, bob := openTasks(t)
	id := q.dispatch(alice, "do it", "chat-1")
	if again := q.dispatch(alice, "do it please", "chat-1"); again != id {
		t.Errorf("%s and %s", id, again)
	}
	if other := q.dispatch(bob, "do it", "chat-1"); other == id {
		t.Error("bob's is alice's")
	}
	if other := q.dispatch(alice, "do it", ""); other == id || other == q.dispatch(alice, "do it", "") {
		t.Error("without a key they are one")
	}
	_, lease := q.take(alice.Agent)
	if _, err := q.Complete(t.Context(), id, lease, ""); err != nil {
		t.Fatal(err)
	}
	if again := q.dispatch(alice, "do it", "chat-1"); again != id {
		t.Error("what is done is done once more")
	}
	_, err := q.Dispatch(t.Context(), alice, "x", strings.Repeat("k", MaxSessionKey+1))
	wantKind(t, "a long key", err, fault.InvalidArgs)
	for _, text := range []string{"", " \n", strings.Repeat("x", MaxTaskText+1)} {
		_, err := q.Dispatch(t.Context(), alice, text, "")
		wantKind(t, fmt.Sprint(len(text), " bytes"), err, fault.InvalidArgs)
	}
	_, err = q.Complete(t.Context(), id, lease, strings.Repeat("x", MaxTaskText+1))
	wantKind(t, "a long result", err, fault.InvalidArgs)
	_, err = q.Dispatch(t.Context(), bridge.Caller{Agent: "nobody"}, "x", "")
	if fault.KindOf(err) != fault.NotFound {
		t.Errorf("nobody: %v", err)
	}
}

// A task that dispatches tasks is refused at the depth limit.
func TestTaskDepth(t *testing.T) {
	q, alice, bob := openTasks(t)
	for depth := 0; ; depth++ {
		_, err := q.Dispatch(t.Context(), alice, "again", "")
		if depth > MaxTaskDepth {
			wantKind(t, "too deep", err, fault.Rejected)
			break
		}
		if task, _ := q.take(alice.Agent); err != nil || task.Depth != depth {
			t.Fatalf("%d: %+v, %v", depth, task, err)
		}
	}
	if task, err := q.Get(t.Context(), q.dispatch(bob, "my first", "")); err != nil || task.Depth != 0 {
		t.Errorf("bob's: %+v, %v", task, err)
	}
	if task, err := q.Add(t.Context(), alice.Agent, "a person asks", "", "cli"); err != nil || task.Depth != 0 || task.Source != "cli" {
		t.Errorf("%+v, %v", task, err)
	}
	q.pass(time.Hour) // nobody works on any of them
	if task, err := q.Get(t.Context(), q.dispatch(alice, "another day", "")); err != nil || task.Depth != 0 {
		t.Errorf("another day: %+v, %v", task, err)
	}
}

func TestTaskLimits(t *testing.T) {
	q, alice, bob := openTasks(t)
	err := q.write(t.Context(), "test", func(w *taskTx) error {
		return w.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
			INSERT INTO tasks (id, agent, text, source, depth, state, created, until, attempts, lease, worker, leased, ended, result)
			SELECT 'T' || i, ?1, 'x', '', 0, iif(i <= ?2, 'queued', 'done'), 0, ?4, 0, '', '', 0, iif(i <= ?2, 0, i), '' FROM n`,
			alice.Agent, MaxOpenTasks-1, MaxOpenTasks-1+KeptTasks, q.clock.Add(time.Hour).UnixNano())
	})
	if err != nil {
		t.Fatal(err)
	}
	q.dispatch(alice, "the last", "")
	_, err = q.Dispatch(t.Context(), alice, "one too many", "")
	wantKind(t, "a full queue", err, fault.Rejected)

	bobs := q.dispatch(bob, "I have waited less", "")
	q.take("") // they take turns
	if task, _ := q.take(""); task.ID != bobs {
		t.Errorf("bob waits for %+v", task)
	}
	task, lease := q.take("")
	if _, err := q.Complete(t.Context(), task.ID, lease, "well"); err != nil {
		t.Fatal(err)
	}
	q.dispatch(alice, "there is room", "")
	n := 0
	for task, err := range q.List(t.Context(), alice.Agent, false) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 && task.Text != "there is room" {
			t.Errorf("the newest is %+v", task)
		}
	}
	if n != MaxOpenTasks+KeptTasks {
		t.Errorf("%d are kept", n)
	}
	if _, err := q.Get(t.Context(), bridge.TaskID(fmt.Sprint("T", MaxOpenTasks))); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the oldest that has ended: %v", err)
	}
	n = 0
	for range q.List(t.Context(), "", true) {
		n++
	}
	if n != MaxOpenTasks+1 {
		t.Errorf("%d are open", n)
	}
	storetest.Delete(t, q.db, alice)
	for task, err := range q.List(t.Context(), "", false) {
		if err != nil || task.Name != "bob" {
			t.Errorf("%+v, %v", task, err)
		}
	}
}

// A waiting worker gets a task when one is queued or its lease ends, or none.
func TestTaskWait(t *testing.T) {
	q, alice, bob := openTasks(t)
	q.now = time.Now
	type answer struct {
		task Task
		ok   bool
		err  error
	}
	wait := func(ctx context.Context, agent config.AgentID, limit time.Duration) chan answer {
		answers := make(chan answer, 1)
		go func() {
			task, _, ok, err := q.Lease(ctx, agent, "app", time.Second, limit)
			answers <- answer{task, ok, err}
		}()
		return answers
	}
	alices, bobs := wait(t.Context(), alice.Agent, time.Minute), wait(t.Context(), bob.Agent, 10*time.Millisecond)
	if a := <-bobs; a.ok || a.err != nil {
		t.Errorf("bob: %+v", a)
	}
	id := q.dispatch(alice, "come", "")
	if a := <-alices; a.err != nil || a.task.ID != id {
		t.Errorf("alice: %+v", a)
	}
	if a := <-wait(t.Context(), "", time.Minute); a.err != nil || a.task.ID != id || a.task.Attempts != 2 {
		t.Errorf("when the lease was over: %+v", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	leaving := wait(ctx, bob.Agent, time.Minute)
	cancel()
	if a := <-leaving; a.err == nil || a.ok {
		t.Errorf("who leaves has %+v", a)
	}
}
