package store

import (
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/smalldisk"
)

func TestFullDisk(t *testing.T) {
	smalldisk.Run(t, "2m", func(d *smalldisk.Disk) {
		path := filepath.Join(d.Dir, "db")
		d.Fill()
		_, err := Open(t.Context(), path)
		wantFault(t, err, fault.Unavailable, "room")
		d.Free()

		db := openAt(t, path, schema("CREATE TABLE t (a INTEGER, b TEXT)"))
		text := strings.Repeat("x", 10_000)
		written := 0
		for round := range 3 {
			for range 10 {
				if err := db.exec(t.Context(), "INSERT INTO t VALUES (?, ?)", written, text); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				written++
			}
			d.Fill()
			for range 3 {
				wantFault(t, db.exec(t.Context(), "INSERT INTO t VALUES (-1, ?)", text), fault.Unavailable, "room")
			}
			if n := db.number(t, "SELECT count(*) FROM t"); n != written {
				t.Errorf("%d rows on the full disk, want %d", n, written)
			}
			if round == 1 { // also closed and opened on a full disk
				db.Close()
				if _, err := Open(t.Context(), path); err != nil {
					wantFault(t, err, fault.Unavailable, "room")
				}
			}
			d.Free()
			if round == 1 {
				db = openAt(t, path, schema(""))
			}
		}
		var says string
		if err := db.writer.QueryRow("PRAGMA integrity_check").Scan(&says); err != nil || says != "ok" {
			t.Errorf("integrity: %s, %v", says, err)
		}
		if n := db.number(t, "SELECT count(*) FROM t WHERE a >= 0"); n != written {
			t.Errorf("%d rows, want %d", n, written)
		}
	})
}

func TestReadOnlyHome(t *testing.T) {
	smalldisk.Run(t, "2m", func(d *smalldisk.Disk) {
		path := filepath.Join(d.Dir, "db")
		db := openAt(t, path, files)
		if err := db.exec(t.Context(), "INSERT INTO events VALUES (1, 0, '', '', '{}')"); err != nil {
			t.Fatal(err)
		}
		db.Close()
		d.ReadOnly(true)
		_, err := Open(t.Context(), path)
		wantFault(t, err, fault.Unavailable, "writable")
		d.ReadOnly(false)
		if n := openAt(t, path, files).number(t, "SELECT count(*) FROM events"); n != 1 {
			t.Errorf("%d events", n)
		}
	})
}
