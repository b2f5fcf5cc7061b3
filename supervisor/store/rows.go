package store

import (
	"context"
	"database/sql"
	"errors"
)

// Row is what a query has found: the only row, or one of many.
type Row interface{ Scan(to ...any) error }

// All is what a query finds, each row as scan reads it.
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

// Value reads a row that is one value.
func Value[T any](row Row) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}
