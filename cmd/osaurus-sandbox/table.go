package main

import (
	"io"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// newTable lays out rows in columns, whose cells end with tabs. Flush writes them.
func newTable(w io.Writer) *tabwriter.Writer {
	const width, gap = 8, 2 // of columns
	return tabwriter.NewWriter(w, 0, width, gap, ' ', 0)
}

// when is a moment as the clock of whoever reads it has it.
func when(t *timestamppb.Timestamp) string { return t.AsTime().Local().Format(time.DateTime) }
