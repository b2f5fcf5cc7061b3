package main

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
)

// stopwatch says where the time went.
type stopwatch struct {
	mu    sync.Mutex
	began time.Time
	last  time.Time
	laps  []lap
}

type lap struct {
	name string
	took time.Duration
}

func newStopwatch() *stopwatch {
	now := time.Now()
	return &stopwatch{began: now, last: now}
}

// lap notes the time since the last lap.
func (s *stopwatch) lap(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.laps = append(s.laps, lap{name, now.Sub(s.last)})
	s.last = now
}

// part notes a part of the last lap.
func (s *stopwatch) part(name string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.laps = append(s.laps, lap{"of it " + name, took})
}

// sinceStart notes the time since the very beginning.
func (s *stopwatch) sinceStart(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.laps = append(s.laps, lap{name, time.Since(s.began)})
}

func (s *stopwatch) print(w io.Writer, title string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, title)
	for _, l := range s.laps {
		writef(table, "%s\t%.3f s\t\n", l.name, l.took.Seconds())
	}
	return table.Flush()
}
