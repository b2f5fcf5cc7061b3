package audit

import (
	"context"
	"database/sql"
	"fmt"

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
	Entries Seq
	Hash    Hash // of the last one: a copy elsewhere shows later if the log was rewritten
}

// Verify checks that all entries are there and unchanged. If not, it fails with
// fault.Rejected and names the first wrong entry.
//
// It cannot detect that somebody who can write to the home has rewritten everything with all
// hashes, or put an older database back. Only a hash that is kept elsewhere shows that.
func (l *Log) Verify(ctx context.Context) (Proof, error) {
	var before head
	err := l.db.Read(ctx, "verify audit", func(tx *sql.Tx) error {
		last, err := lastInTable(ctx, tx)
		if err != nil {
			return err
		}
		for more := true; more; {
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
			}
			more = len(some) == page
		}
		switch {
		case last.seq > before.seq:
			return missing(before.seq+1, last.seq)
		case before != last:
			return broken(before.seq, "it is not what was recorded")
		}
		return nil
	})
	if err != nil {
		return Proof{}, err
	}
	return Proof{before.seq, before.hash}, nil
}

func missing(from, to Seq) error {
	if from == to {
		return broken(from, "it is missing")
	}
	return broken(from, "it and all entries up to %d are missing", to)
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
