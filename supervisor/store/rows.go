package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Row is the only row that a query has found, or one of many.
type Row interface{ Scan(to ...any) error }

// All returns all rows of a query, each as scan reads it.
func All[T any](ctx context.Context, tx *sql.Tx, scan func(Row) (T, error), query string, args ...any) (list []T, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, errors.Join(rows.Err(), rows.Close())
}

// Select is All in a transaction of its own.
func Select[T any](ctx context.Context, db *DB, op string, scan func(Row) (T, error), query string, args ...any) (list []T, err error) {
	err = db.Read(ctx, op, func(tx *sql.Tx) error {
		list, err = All(ctx, tx, scan, query, args...)
		return err
	})
	return list, err
}

// Find returns the first row of a query, in a transaction of its own, and whether there is one.
func Find[T any](ctx context.Context, db *DB, op string, scan func(Row) (T, error), query string, args ...any) (one T, found bool, err error) {
	list, err := Select(ctx, db, op, scan, query, args...)
	if len(list) > 0 {
		one = list[0]
	}
	return one, len(list) > 0, err
}

// Exec runs one statement in a transaction of its own and returns how many rows it has changed.
func (db *DB) Exec(ctx context.Context, op, query string, args ...any) (rows int, err error) {
	err = db.Write(ctx, op, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		rows = int(n)
		return err
	})
	return rows, err
}

// Pages yields a list that next reads a page at a time, so that no transaction is open
// while its caller is slow. Next gets the last item of the page before, at first the
// zero value. A page with less than size items is the last.
func Pages[T any](size int, next func(last T) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last, none T
		for {
			list, err := next(last)
			if err != nil {
				yield(none, err)
				return
			}
			for _, last = range list {
				if !yield(last, nil) {
					return
				}
			}
			if len(list) < size {
				return
			}
		}
	}
}

// Value reads a row that is one value.
func Value[T any](row Row) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}

// Time reads a column with nanoseconds since 1970. 0 is the zero time.
func Time(to *time.Time) sql.Scanner { return nanos{to} }

// Nanos returns a time for such a column.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

type nanos struct{ to *time.Time }

func (n nanos) Scan(column any) error {
	switch v, ok := column.(int64); {
	case !ok:
		return fmt.Errorf("%T is not a time", column)
	case v == 0:
		*n.to = time.Time{}
	default:
		*n.to = time.Unix(0, v).UTC()
	}
	return nil
}

// JSON is a column that has a value as JSON. To read it, pass a pointer to the value.
func JSON(value any) interface {
	driver.Valuer
	sql.Scanner
} {
	return document{value}
}

type document struct{ value any }

func (d document) Value() (driver.Value, error) {
	text, err := json.Marshal(d.value)
	return string(text), err
}

func (d document) Scan(column any) error { return json.Unmarshal([]byte(fmt.Sprint(column)), d.value) }
