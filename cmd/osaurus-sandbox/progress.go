package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
)

const (
	// barWidth is the length of a bar in columns.
	barWidth = 24
	// plainEvery is how often a step reports its progress without a terminal.
	plainEvery = 10 * time.Second
	// done marks a finished step.
	done = "done"
	// clearLine clears the current line of a terminal.
	clearLine = "\r\x1b[K"
)

// showProgress draws a bar for each step on a terminal. Elsewhere it writes a line at a step's
// beginning and end, and now and then between.
func showProgress(w io.Writer) progress.Func {
	if columns := terminalWidth(w); columns > 0 {
		colours := paintFor(w)
		return func(e progress.Event) { drawBar(w, e, columns, colours) }
	}
	p := lasting{w: w}
	return p.show
}

// terminalWidth returns the number of columns of a reader or writer, or 0 if it is not a terminal.
func terminalWidth(stream any) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return cmp.Or(int(size.Col), 80) // the terminal does not know its size
}

func drawBar(w io.Writer, e progress.Event, columns int, colours paint) {
	if e.Note != "" {
		writef(w, clearLine+"%s\n", e.Note)
		return
	}
	line, bar := string(safef("%s", e.Step)), ""
	if e.Total > 0 && columns >= 80 {
		full := int(min(e.Done, e.Total) * barWidth / e.Total)
		bar = strings.Repeat("#", full)
		line = fmt.Sprintf("%-30s [%s%s]", e.Step, bar, strings.Repeat(" ", barWidth-full))
	}
	line += " " + progressText(e)
	if runes := []rune(line); len(runes) >= columns {
		line = string(runes[:columns-1])
	}
	end := ""
	if e.Finished {
		bar, end = done, "\n"
	}
	if at := strings.LastIndex(line, bar); bar != "" && at >= 0 { // colours have no width, so they come last
		line = line[:at] + string(colours.good(bar)) + line[at+len(bar):]
	}
	fmt.Fprint(w, clearLine, line, end)
}

// withProgress shows the progress of a call, and returns its last answer. A step ends when the next begins.
func withProgress[M interface {
	GetProgress() *controlpb.ProgressEvent
}](c *call, answers iter.Seq2[M, error]) (last M, err error) {
	show, shown, ended := showProgress(c.err), progress.Event{Finished: true}, false
	finish := func() {
		if !shown.Finished {
			shown.Finished = true
			show(shown)
		}
	}
	for answer, err := range answers {
		if err != nil {
			return last, err
		}
		last = answer
		switch p := answer.GetProgress(); {
		case p == nil:
			ended = true
		case p.Note != "":
			show(progress.Event{Note: p.Note})
		default:
			if p.Step != shown.Step {
				finish()
			}
			shown = progress.Event{Step: p.Step, Done: p.Done, Total: p.Total, Finished: p.Finished}
			show(shown)
		}
	}
	finish()
	if !ended {
		err = fault.Newf(fault.Execution, "wait for the result", "", "the daemon reported none")
	}
	return last, err
}

// lasting reports progress in lines that are never overwritten.
type lasting struct {
	w    io.Writer
	step string
	at   time.Time
}

func (p *lasting) show(e progress.Event) {
	switch now := time.Now(); {
	case e.Note != "":
		writef(p.w, "%s\n", e.Note)
	case e.Finished:
		writef(p.w, "%s: %s\n", e.Step, progressText(e))
		p.step = ""
	case e.Step != p.step:
		writef(p.w, "%s\n", e.Step)
		p.step, p.at = e.Step, now
	case now.Sub(p.at) >= plainEvery:
		writef(p.w, "%s: %s\n", e.Step, cmp.Or(progressText(e), "still running"))
		p.at = now
	}
}

// progressText describes the progress of a step: "34.5 of 69.2 MB, 11.2 MB/s, 3s left". A step
// without a count is only reported as done.
func progressText(e progress.Event) string {
	var parts []string
	switch {
	case e.Total > 0 && !e.Finished:
		parts = append(parts, fmt.Sprintf("%.1f of %.1f MB", megabytes(e.Done), megabytes(e.Total)))
	case e.Done > 0:
		parts = append(parts, fmt.Sprintf("%.1f MB", megabytes(e.Done)))
	}
	if e.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%.1f MB/s", megabytes(int64(e.Rate))))
	}
	switch {
	case e.Finished:
		parts = append(parts, done)
	case e.Left > 0:
		parts = append(parts, fmt.Sprintf("%v left", e.Left))
	}
	return strings.Join(parts, ", ")
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }

// quietTime is how long a command may be silent before it shows what it waits for.
const quietTime = time.Second

// showStart shows on a terminal how the sandbox starts, until stop is called.
func showStart(ctx context.Context, c *call) (stop func()) {
	if terminalWidth(c.err) == 0 {
		return func() {}
	}
	return followProgress(ctx, c, quietTime)
}

// showingStart is start that also shows how the sandbox starts, until the command writes
// something.
func showingStart(c *call, start starter) starter {
	return func(ctx context.Context, command engine.Command) (process, error) {
		stop := showStart(ctx, c)
		defer stop()
		var once sync.Once // the command may write before start returns
		command.Stdout, command.Stderr = onFirst{command.Stdout, &once, stop}, onFirst{command.Stderr, &once, stop}
		return start(ctx, command)
	}
}

// followProgress shows the sandbox's progress after a short delay, until stop is called. stop may be
// called more than once.
func followProgress(ctx context.Context, c *call, after time.Duration) (stop func()) {
	watch, cancel := context.WithCancel(ctx)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		select {
		case <-watch.Done():
			return
		case <-time.After(after):
		}
		show, undone := showProgress(c.err), false
		steps := newSteps(func(e progress.Event) {
			show(e)
			undone = e.Note == "" && !e.Finished
		})
		for r, err := range control.Messages(c.WatchStatus(watch, &controlpb.WatchStatusRequest{})) {
			if err != nil {
				break // progress is optional: the command still works
			}
			steps.show(r.Status)
		}
		if undone && terminalWidth(c.err) > 0 { // finish the unfinished line
			fmt.Fprint(c.err, clearLine)
		}
	}()
	return func() {
		cancel()
		<-shown
	}
}

// steps shows the steps of an operation.
type steps struct {
	report progress.Func
	shown  map[string]bool // steps already shown or finished; nil before the first status
}

func newSteps(report progress.Func) *steps { return &steps{report: report} }

// show shows the new steps.
func (s *steps) show(status *controlpb.Status) {
	j := status.GetProgress()
	report := s.report
	if s.shown == nil {
		s.shown = map[string]bool{}
		if status.GetOperation() == "" || !underWay(j) {
			report = func(progress.Event) {} // of an earlier operation
		}
	}
	once := func(key string, e progress.Event) {
		if key = fmt.Sprint(j.Began.AsTime(), key); !s.shown[key] {
			s.shown[key] = true
			report(e)
		}
	}
	for _, note := range j.GetNotes() {
		once(note, progress.Event{Note: note})
	}
	for _, step := range j.GetSteps() {
		e := progress.Event{Step: stepName(step), Done: int64(step.Done), Total: int64(step.Total), Rate: step.Rate, Left: step.Left.AsDuration()}
		switch step.Status {
		case "in_progress":
			report(e)
		case "completed":
			e.Finished = true
			once(step.Name, e)
		}
	}
}

// underWay reports whether an operation has unfinished steps.
func underWay(j *controlpb.Progress) bool {
	return slices.ContainsFunc(j.GetSteps(), func(s *controlpb.Step) bool { return s.Status == "pending" || s.Status == "in_progress" })
}

// stepName returns a step's name for people.
func stepName(s *controlpb.Step) string {
	name := map[string]string{
		"pack": "find what the guest is made of", "image": "make the image", "toolbox": "install the toolbox",
		"disk": "make the disk", "boot": "boot", "verify": "check that all is there",
	}[s.Name]
	if name == "" {
		name = s.Name
	}
	if s.Detail != "" && s.Status == "in_progress" {
		name += ": " + s.Detail
	}
	return name
}
