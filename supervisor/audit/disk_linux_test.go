package audit

import (
	"path/filepath"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/smalldisk"
)

// On a full disk an entry is refused, not lost: the chain holds, and goes on
// when there is room.
func TestFullDisk(t *testing.T) {
	smalldisk.Run(t, "2m", func(d *smalldisk.Disk) {
		path := filepath.Join(d.Dir, "db")
		l := open(t, path)
		recorded := l.add(t, 20).Seq
		d.Fill()
		for refused := 0; refused < 20; {
			e, err := l.Record(t.Context(), Entry{Client: "test", Action: "a", Outcome: OK})
			if err == nil { // what the WAL already has room for
				if recorded++; e.Seq != recorded {
					t.Fatalf("%d comes after %d", e.Seq, recorded-1)
				}
				continue
			}
			refused++
			if fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
				t.Fatal(err)
			}
		}
		if p, err := l.Verify(t.Context()); err != nil || p.Last != recorded {
			t.Errorf("on the full disk: %+v, %v", p, err)
		}
		d.Free()
		if e := l.add(t, 5); e.Seq != recorded+5 {
			t.Errorf("with room again: %+v", e)
		}
		l.db.Close()
		if p, err := open(t, path).Verify(t.Context()); err != nil || p.Last != recorded+5 {
			t.Errorf("opened again: %+v, %v", p, err)
		}
	})
}

// An audit that begins on a full disk is not taken for one that was cut off.
func TestBeginOnFullDisk(t *testing.T) {
	smalldisk.Run(t, "2m", func(d *smalldisk.Disk) {
		l := open(t, filepath.Join(d.Dir, "db"))
		d.Fill()
		if _, err := l.Record(t.Context(), Entry{Client: "test", Action: "a", Outcome: OK}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("full: %v", err)
		}
		if p, err := l.Verify(t.Context()); err != nil || p.Entries != 0 {
			t.Errorf("full: %+v, %v", p, err)
		}
		d.Free()
		l.add(t, 2)
		if p, err := l.Verify(t.Context()); err != nil || p.Entries != 2 {
			t.Errorf("with room again: %+v, %v", p, err)
		}
	})
}
