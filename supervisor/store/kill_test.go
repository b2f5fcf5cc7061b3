package store_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/events"

	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/supervisor/store/storetest"

	"osaurus-sandbox/supervisor/services"
)

const (
	victim = "OSAURUS_STORE_VICTIM" // names the database that a child is to write
	inmate = "OSAURUS_STORE_AGENT"  // is the id of an agent in it
	kills  = 50
	// pause is between what a program of an agent does: of that only the newest is
	// kept, and here it shall be all.
	pause = 10 * time.Millisecond
)

// TestMain makes this test program one that appends until it is killed, where
// asked to.
func TestMain(m *testing.M) {
	if path := os.Getenv(victim); path != "" {
		write(path)
	}
	os.Exit(m.Run())
}

// write says on standard output what it was told is on the disk.
func write(path string) {
	ctx := context.Background()
	db, err := store.Open(ctx, path)
	must(err)
	journal, err := events.Open(ctx, db)
	must(err)
	log := audit.New(db)
	var said sync.Mutex
	say := func(what string, number int64) {
		said.Lock()
		defer said.Unlock()
		fmt.Println(what, number)
	}
	for range 2 {
		go func() {
			for {
				e, err := journal.Note(events.Event{Kind: "e", Cause: "test"})
				if err == nil {
					err = journal.Keep(ctx)
				}
				must(err)
				say("event", int64(e.Seq))
			}
		}()
	}
	who := bridge.Caller{Agent: config.AgentID(os.Getenv(inmate)), User: "agent-alice", Plugin: "weather"}
	go ask(ctx, db, who, say)
	go work(ctx, db, who, say)
	for {
		e, err := log.Record(ctx, audit.Entry{Client: "test", Action: "a", Outcome: audit.OK})
		must(err)
		say("entry", int64(e.Seq))
	}
}

// ask does what programs of an agent ask for.
func ask(ctx context.Context, db *store.DB, who bridge.Caller, say func(string, int64)) {
	facts, told, set := services.NewMemory(db), services.NewTopics(db), services.NewPluginConfig(db)
	for ; ; time.Sleep(pause) {
		n := time.Now().UnixNano()
		text := fmt.Sprint(n)
		must(facts.Store(ctx, who, text))
		say("fact", n)
		must(told.Emit(ctx, who, "number", json.RawMessage(text)))
		say("topic", n)
		must(set.Set(ctx, who, "number", text))
		say("config", n)
	}
}

// work gives tasks to an agent, and does them as an app does.
func work(ctx context.Context, db *store.DB, who bridge.Caller, say func(string, int64)) {
	queue := services.NewTasks(db, func(events.Event) {})
	for ; ; time.Sleep(pause) {
		n := time.Now().UnixNano()
		text := fmt.Sprint(n)
		_, err := queue.Add(ctx, who.Agent, text, text, "test")
		must(err)
		say("task", n)
		// The longest lease: nobody else has it while the test runs.
		task, lease, ok, err := queue.Lease(ctx, who.Agent, "test", services.MaxLease, 0)
		must(err)
		if !ok {
			continue // it was killed after it had dispatched, and another one has begun
		}
		n, err = strconv.ParseInt(task.Key, 10, 64)
		must(err)
		say("lease", n)
		_, err = queue.Complete(ctx, task.ID, lease, task.Key)
		must(err)
		say("done", n)
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// What a program was told is written is there, at whatever moment it is
// killed, and the audit proves itself.
func TestKilledAtAnyMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	who := prepare(t, path)
	acknowledged := map[string]map[int64]bool{}
	for _, what := range []string{"event", "entry", "fact", "topic", "config", "task", "lease", "done"} {
		acknowledged[what] = map[int64]bool{}
	}
	deadly := 0
	for round := range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), victim+"="+path, inmate+"="+string(who.Agent))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		words := rand.N(60) // it is killed after so many: also a slow program writes something
		if round%5 == 0 {
			cmd.Process.Kill() // or while it opens
		}
		said := bufio.NewReader(out)
		before := deadly
		for {
			line, err := said.ReadString('\n')
			if err == io.EOF { // half a line says nothing
				break
			}
			var what string
			var number int64
			if _, err := fmt.Sscanln(strings.TrimSpace(line), &what, &number); err != nil || acknowledged[what] == nil {
				t.Fatalf("the program says %q", line)
			}
			if acknowledged[what][number] {
				t.Errorf("%s %d is given twice", what, number)
			}
			acknowledged[what][number] = true
			if deadly == before {
				deadly++
			}
			if words--; words == -1 {
				time.AfterFunc(rand.N(5*time.Millisecond), func() { cmd.Process.Kill() }) // in the midst of the next
			}
		}
		cmd.Wait()
		if round%10 == 9 {
			check(t, path, who, acknowledged)
		}
	}
	t.Logf("%d of %d were killed while they wrote", deadly, kills)
	for what, numbers := range acknowledged {
		if t.Logf("%s: %d", what, len(numbers)); len(numbers) == 0 {
			t.Errorf("of %s nothing was acknowledged", what)
		}
	}
	if deadly < kills/2 {
		t.Error("too few were killed while they wrote")
	}
}

// prepare makes the database, with an agent in it.
func prepare(t *testing.T, path string) bridge.Caller {
	t.Helper()
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	who, err := storetest.Add(t.Context(), db, "alice")
	if err != nil {
		t.Fatal(err)
	}
	return who
}

func check(t *testing.T, path string, who bridge.Caller, acknowledged map[string]map[int64]bool) {
	t.Helper()
	ctx := t.Context()
	db, err := store.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	proof, err := audit.New(db).Verify(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for n := range acknowledged["entry"] {
		if n > proof.Entries {
			t.Errorf("entry %d is lost", n)
		}
	}
	journal, err := events.Open(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	there := map[int64]bool{}
	for e, err := range journal.List(ctx, 0) {
		if err != nil || e.Kind == events.Gap {
			t.Fatalf("%+v, %v", e, err)
		}
		there[int64(e.Seq)] = true
	}
	for n := range acknowledged["event"] {
		if !there[n] {
			t.Errorf("event %d is lost", n)
		}
	}
	if err := journal.Close(ctx); err != nil {
		t.Error(err)
	}
	checkPrograms(t, db, who, acknowledged)
}

// checkPrograms checks that what programs of an agent and an app were told is so.
func checkPrograms(t *testing.T, db *store.DB, who bridge.Caller, acknowledged map[string]map[int64]bool) {
	t.Helper()
	there := map[string]map[string]int{"fact": {}, "topic": {}, "task": {}, "done": {}}
	for f, err := range services.NewMemory(db).List(t.Context(), who.Agent) {
		if err != nil {
			t.Fatal(err)
		}
		there["fact"][f.Content]++
	}
	for e, err := range services.NewTopics(db).List(t.Context(), services.TopicFilter{Agent: who.Agent}) {
		if err != nil || e.Gap != nil {
			t.Fatalf("%+v, %v", e, err)
		}
		there["topic"][string(e.Payload)]++
	}
	for task, err := range services.NewTasks(db, func(events.Event) {}).List(t.Context(), who.Agent, false) {
		if err != nil {
			t.Fatal(err)
		}
		if there["task"][task.Key]++; task.State == services.TaskDone && task.Result == task.Key {
			there["done"][task.Key]++
		}
	}
	for what, numbers := range there {
		for n := range acknowledged[what] {
			if times := numbers[fmt.Sprint(n)]; times != 1 {
				t.Errorf("%s %d is there %d times", what, n, times)
			}
		}
	}
	value, err := services.NewPluginConfig(db).Get(t.Context(), who, "number")
	if err != nil && fault.KindOf(err) != fault.NotFound { // perhaps nobody has come so far
		t.Fatal(err)
	}
	for n := range acknowledged["config"] {
		if fmt.Sprint(n) > value { // all have as many digits
			t.Errorf("%d was set after %s", n, value)
		}
	}
}
