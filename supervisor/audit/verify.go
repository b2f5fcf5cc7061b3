package audit

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

// head is the last entry of a chain; the zero head comes before the first.
type head struct {
	seq  Seq
	hash Hash
}

// Proof is the result of Verify.
type Proof struct {
	Entries int64
	Last    Seq
	Hash    Hash // of the last entry: a copy elsewhere shows later if the log was rewritten
}

// Verify checks that all entries are there and unchanged. If not, it fails with
// fault.Rejected and names the first wrong entry.
//
// It cannot detect that everything was rewritten, with all hashes, by somebody who can
// write to the home. Only a hash that is kept elsewhere shows that.
func (l *Log) Verify(ctx context.Context) (Proof, error) {
	var proof Proof
	// The note is written after its entry, so it must be read before the table.
	noted, found, err := l.readNote()
	if err != nil {
		return proof, err
	}
	err = l.db.Read(ctx, "verify audit", func(tx *sql.Tx) error {
		var last, before head
		var err error
		if last, err = lastInTable(ctx, tx); err != nil {
			return err
		}
		if !found && last.seq > 0 { // the first entry may have come in between
			if _, found, err = l.readNote(); err != nil {
				return err
			}
		}
		if !found && last.seq > 0 {
			return broken(last.seq, "%s is missing: nobody can tell whether entries after this one are missing too", filepath.Base(l.notePath()))
		}
		for {
			some, err := store.All(ctx, tx, scan, "SELECT * FROM audit WHERE seq > ? ORDER BY seq LIMIT ?", before.seq, page)
			if err != nil {
				return err
			}
			for _, e := range some {
				if e.Seq != before.seq+1 {
					return missing(before.seq+1, e.Seq-1)
				}
				if e.chain(before.hash) != e.Hash {
					return broken(e.Seq, "it was changed, or an entry before it was replaced")
				}
				before = head{e.Seq, e.Hash}
				if before.seq == noted.seq && before.hash != noted.hash {
					return broken(e.Seq, "it is not what was recorded: %s has another hash", filepath.Base(l.notePath()))
				}
				proof.Entries++
			}
			if len(some) < page {
				break
			}
		}
		for _, end := range []head{noted, last} {
			if end.seq > before.seq {
				return missing(before.seq+1, end.seq)
			}
		}
		if before != last {
			return broken(before.seq, "it was added behind the log's back")
		}
		proof.Last, proof.Hash = before.seq, before.hash
		return nil
	})
	return proof, err
}

func missing(from, to Seq) error {
	if from == to {
		return broken(from, "it is missing")
	}
	return broken(from, "it is missing, and all up to %d", to)
}

func broken(seq Seq, format string, args ...any) error {
	return fault.New(fault.Rejected, "verify audit", fmt.Sprintf("entry %d", seq), fmt.Errorf(format, args...)).
		Advise("Trust no entry from this one on. Keep a copy of sandbox.db and compare it with a backup.")
}

func lastInTable(ctx context.Context, tx *sql.Tx) (head, error) {
	var (
		h    head
		hash []byte
	)
	if err := tx.QueryRowContext(ctx, "SELECT seq, hash FROM audit_head").Scan(&h.seq, &hash); err != nil {
		return h, err
	}
	copy(h.hash[:], hash)
	return h, nil
}

// scan reads a row of all columns.
func scan(row store.Row) (e Entry, err error) {
	var hash []byte
	err = row.Scan(&e.Seq, store.Time(&e.Time), &e.UID, &e.Agent, &e.Client, &e.Action, &e.Subject, &e.Outcome, &e.Detail, &hash)
	copy(e.Hash[:], hash)
	return e, err
}
