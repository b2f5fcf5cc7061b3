package audit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

func open(t testing.TB, path string) *Log {
	t.Helper()
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return New(db)
}

func (l *Log) add(t testing.TB, n int) (last Entry) {
	t.Helper()
	for i := range n {
		var err error
		last, err = l.Record(t.Context(), Entry{UID: 1000, Client: "test", Action: "machine.start", Subject: fmt.Sprint(i), Outcome: OK})
		if err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func (l *Log) list(t testing.TB, f Filter) (list []Entry) {
	t.Helper()
	for e, err := range l.List(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func (l *Log) exec(t testing.TB, query string) error {
	t.Helper()
	_, err := l.db.Exec(t.Context(), "test", query)
	return err
}

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	l := open(t, path)
	if p, err := l.Verify(t.Context()); err != nil || p != (Proof{}) {
		t.Errorf("an empty log: %+v, %v", p, err)
	}
	long := strings.Repeat("x", maxText) + "; rm -rf /"
	e, err := l.Record(t.Context(), Entry{UID: 1000, Agent: "alice", Client: "osaurus-sandbox exec", Action: "exec",
		Subject: long, Outcome: OutcomeOf(fault.New(fault.Timeout, "", "", nil)), Detail: "\xff\x00\n"})
	if err != nil || e.Seq != 1 || e.Outcome != "timeout" || time.Since(e.Time) > time.Minute {
		t.Fatalf("%+v, %v", e, err)
	}
	if !strings.HasSuffix(e.Subject, fmt.Sprintf("x… (%d bytes, SHA-256 %x)", len(long), sha256.Sum256([]byte(long)))) {
		t.Errorf("cut to …%q", e.Subject[maxText:])
	}
	if _, err := l.Record(t.Context(), Entry{Action: "exec", Outcome: OK}); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("without a client: %v", err)
	}
	l.add(t, 2)
	if list := l.list(t, Filter{}); len(list) != 3 || list[2] != e {
		t.Errorf("%+v\nwant the last to be\n%+v", list, e)
	}
	l.db.Close()
	l = open(t, path)
	last := l.add(t, 1)
	if p, err := l.Verify(t.Context()); err != nil || p != (Proof{4, last.Hash}) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestList(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "db"))
	const all = page + 50
	var middle time.Time
	for i := range all {
		e := Entry{Client: "test", Action: "a", Outcome: OK}
		if i%10 == 0 {
			e.Agent = "alice"
		}
		e, err := l.Record(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if i == 99 {
			middle = e.Time
		}
	}
	for _, c := range []struct {
		name        string
		filter      Filter
		n           int
		first, last Seq
	}{
		{"all", Filter{}, all, all, 1},
		{"a few", Filter{Limit: 7}, 7, all, all - 6},
		{"just a page", Filter{Limit: page}, page, all, 51},
		{"more than a page", Filter{Limit: page + 1}, page + 1, all, 50},
		{"more than there is", Filter{Limit: 10 * page}, all, all, 1},
		{"the next page", Filter{Before: 51, Limit: 10}, 10, 50, 41},
		{"since", Filter{Since: middle}, all - 99, all, 100},
		{"an agent", Filter{Agent: "alice"}, 31, 301, 1},
		{"an agent since", Filter{Agent: "alice", Since: middle, Limit: 100}, 21, 301, 101},
		{"nobody", Filter{Agent: "bob"}, 0, 0, 0},
	} {
		list := l.list(t, c.filter)
		if len(list) != c.n || c.n > 0 && (list[0].Seq != c.first || list[c.n-1].Seq != c.last) {
			t.Errorf("%s: %d entries", c.name, len(list))
		}
		if !slices.IsSortedFunc(list, func(a, b Entry) int { return int(b.Seq - a.Seq) }) {
			t.Errorf("%s: not in order", c.name)
		}
	}
	for range l.List(t.Context(), Filter{}) {
		break // whoever has seen enough
	}
}

// The database itself refuses to change what is recorded.
func TestOnlyGrows(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "db"))
	l.add(t, 3)
	for _, query := range []string{
		"UPDATE audit SET uid = 0 WHERE seq = 2",
		"DELETE FROM audit WHERE seq = 3",
		"DELETE FROM audit",
		"INSERT OR REPLACE INTO audit SELECT seq, time, 0, agent, client, action, subject, outcome, detail, hash FROM audit WHERE seq = 2",
	} {
		if err := l.exec(t, query); fault.KindOf(err) != fault.Rejected {
			t.Errorf("%s: %v", query, err)
		}
	}
	if p, err := l.Verify(t.Context()); err != nil || p.Entries != 3 {
		t.Errorf("%+v, %v", p, err)
	}
}

// Somebody who removes the triggers first is found out all the same.
func TestVerifyNamesTheFirstBrokenEntry(t *testing.T) {
	const disarm = "DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_deleted; DROP TRIGGER audit_only_grows;"
	forge := func(t *testing.T, l *Log, seq Seq) {
		list := l.list(t, Filter{Before: seq + 1, Limit: 2})
		list[0].UID = 0
		hash := list[0].chain(list[1].Hash)
		if _, err := l.db.Exec(t.Context(), "test", "UPDATE audit SET uid = 0, hash = ? WHERE seq = ?", hash[:], seq); err != nil {
			t.Fatal(err)
		}
	}
	run := func(query string) func(*testing.T, *Log) {
		return func(t *testing.T, l *Log) {
			if err := l.exec(t, query); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		do  func(*testing.T, *Log)
		say string
	}{
		"time":          {run("UPDATE audit SET time = time + 1 WHERE seq = 5"), "entry 5: it was changed"},
		"uid":           {run("UPDATE audit SET uid = 0 WHERE seq = 5"), "entry 5: it was changed"},
		"agent":         {run("UPDATE audit SET agent = 'bob' WHERE seq = 5"), "entry 5: it was changed"},
		"client":        {run("UPDATE audit SET client = 'x' WHERE seq = 5"), "entry 5: it was changed"},
		"action":        {run("UPDATE audit SET action = 'x' WHERE seq = 5"), "entry 5: it was changed"},
		"subject":       {run("UPDATE audit SET subject = 'x' WHERE seq = 5"), "entry 5: it was changed"},
		"outcome":       {run("UPDATE audit SET outcome = 'x' WHERE seq = 5"), "entry 5: it was changed"},
		"detail":        {run("UPDATE audit SET detail = 'x' WHERE seq = 5"), "entry 5: it was changed"},
		"hash":          {run("UPDATE audit SET hash = zeroblob(32) WHERE seq = 5"), "entry 5: it was changed"},
		"first":         {run("UPDATE audit SET uid = 0 WHERE seq = 1"), "entry 1: it was changed"},
		"last":          {run("UPDATE audit SET uid = 0 WHERE seq = 10"), "entry 10: it was changed"},
		"two swapped":   {run("UPDATE audit SET seq = -1 WHERE seq = 5; UPDATE audit SET seq = 5 WHERE seq = 6; UPDATE audit SET seq = 6 WHERE seq = -1"), "entry 5: it was changed"},
		"deleted":       {run("DELETE FROM audit WHERE seq = 5"), "entry 5: it is missing"},
		"first deleted": {run("DELETE FROM audit WHERE seq = 1"), "entry 1: it is missing"},
		"many deleted":  {run("DELETE FROM audit WHERE seq IN (5, 6, 7)"), "entry 5: it and all entries up to 7 are missing"},
		"tail deleted":  {run("DELETE FROM audit WHERE seq > 7"), "entry 8: it and all entries up to 10 are missing"},
		"forged":        {func(t *testing.T, l *Log) { forge(t, l, 5) }, "entry 6: it was changed, or an entry before it was replaced"},
		"forged last":   {func(t *testing.T, l *Log) { forge(t, l, 10) }, "entry 10: it is not what was recorded"},
		"added":         {run("INSERT INTO audit SELECT 11, time, uid, agent, client, action, subject, outcome, detail, hash FROM audit WHERE seq = 10"), "entry 11: it was changed"},
		"truncated, and then life went on": {func(t *testing.T, l *Log) {
			run("DELETE FROM audit WHERE seq > 7")(t, l)
			l.add(t, 2)
		}, "entry 8: it and all entries up to 10 are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, filepath.Join(t.TempDir(), "db"))
			l.add(t, 10)
			run(disarm)(t, l)
			c.do(t, l)
			for range 2 { // and looking does not repair it
				_, err := l.Verify(t.Context())
				if fault.KindOf(err) != fault.Rejected || err == nil || !strings.HasPrefix(err.Error(), "verify audit "+c.say) || fault.AdviceOf(err) == "" {
					t.Errorf("%v, want %s", err, c.say)
				}
			}
		})
	}
}

// Many record while another verifies.
func TestAtOnce(t *testing.T) {
	const writers, each = 4, 40
	l := open(t, filepath.Join(t.TempDir(), "db"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writing, looking sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for range each {
				if _, err := l.Record(t.Context(), Entry{Agent: config.AgentName(fmt.Sprint(w)), Client: "test", Action: "a", Outcome: OK}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	looking.Go(func() {
		for ctx.Err() == nil {
			if _, err := l.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	writing.Wait()
	stop()
	looking.Wait()
	if p, err := l.Verify(t.Context()); err != nil || p.Entries != writers*each {
		t.Errorf("%+v, %v", p, err)
	}
}
