package events

import (
	"path/filepath"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/smalldisk"
)

// Events that happen while the disk is full are seen at once, and on the disk
// when there is room again.
func TestFullDisk(t *testing.T) {
	smalldisk.Run(t, "2m", func(d *smalldisk.Disk) {
		path := filepath.Join(d.Dir, "db")
		db := database(t, path)
		j := journal(t, db, limits{keep: 1000, slack: 100, unkept: 300})
		last := j.add(t, "e", 20).Seq
		follow, stop := next(t, j, last)
		defer stop()
		d.Fill()
		waited := 0
		// What the WAL already has room for may still be written.
		for waited < 40 {
			e, err := j.put(t.Context(), Event{Kind: "e", Cause: "full"})
			if last++; e.Seq != last || follow().Seq != last {
				t.Fatalf("%+v, %v; want number %d", e, err, last)
			}
			if err != nil {
				waited++
				if fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
					t.Fatal(err)
				}
			}
		}
		d.Free()
		if e := j.add(t, "e", 1); e.Seq != last+1 {
			t.Errorf("with room again: %+v", e)
		}
		db.Close() // without the journal, as if killed
		list := journal(t, database(t, path), ordinary).list(t, 0)
		if len(list) != int(last)+1 || list[last].Seq != last+1 {
			t.Errorf("%d events are kept, want %d", len(list), last+1)
		}
	})
}
