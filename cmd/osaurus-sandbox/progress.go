package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/progress"
)

const (
	// barWidth is the length of a bar in cells, where the terminal has room.
	barWidth = 24
	// plainEvery is how often a step reports where lines stay on the screen.
	plainEvery = 10 * time.Second
	// done is the last word about a step.
	done = "done"
	// clearLine takes from a terminal what is on the line.
	clearLine = "\r\x1b[K"
)

// showProgress draws a bar for each step where w is a terminal, and elsewhere
// writes a line when a step begins, now and then, and when it ends.
func showProgress(w io.Writer) progress.Func {
	if columns := terminalWidth(w); columns > 0 {
		colours := paintFor(w)
		return func(e progress.Event) { drawBar(w, e, columns, colours) }
	}
	p := lasting{w: w}
	return p.show
}

// terminalWidth is how many columns w has, or 0 if it is no terminal.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return cmp.Or(int(size.Col), 80) // a terminal that does not know its size
}

// isTerminal reports whether a person may be at the other end of r.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
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
	line += " " + howFar(e)
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

// lasting writes lines that stay.
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
		writef(p.w, "%s: %s\n", e.Step, howFar(e))
		p.step = ""
	case e.Step != p.step:
		writef(p.w, "%s\n", e.Step)
		p.step, p.at = e.Step, now
	case now.Sub(p.at) >= plainEvery:
		writef(p.w, "%s: %s\n", e.Step, cmp.Or(howFar(e), "still at it"))
		p.at = now
	}
}

// howFar is a step in words: "34.5 of 69.2 MB, 11.2 MB/s, 3s left". A step
// that counts nothing says only when it is done.
func howFar(e progress.Event) string {
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

// toldAfter is how long a command may take to begin before a person is shown what
// it waits for.
const toldAfter = time.Second

// withProgress shows the steps of what the sandbox does while do waits for it.
func withProgress(ctx context.Context, c console, client *control.Client, do func() (*controlpb.Status, error)) (*controlpb.Status, error) {
	stop := showJourney(ctx, c, client, 0)
	defer stop()
	return do()
}

// showStart shows a person at a terminal how the sandbox starts, where something that
// they have asked for has to wait for that, until stop is called.
func showStart(ctx context.Context, c console, client *control.Client) (stop func()) {
	if terminalWidth(c.err) == 0 {
		return func() {}
	}
	return showJourney(ctx, c, client, toldAfter)
}

// showingStart is start that shows how the sandbox starts, until the command writes
// something itself.
func showingStart(c console, client *control.Client, start starter) starter {
	return func(ctx context.Context, command engine.Command) (process, error) {
		stop := showStart(ctx, c, client)
		defer stop()
		var once sync.Once // its output may come before start returns
		command.Stdout, command.Stderr = onFirst{command.Stdout, &once, stop}, onFirst{command.Stderr, &once, stop}
		return start(ctx, command)
	}
}

// showJourney shows the steps of what the sandbox does, from after a while until
// stop is called; it may be called again.
func showJourney(ctx context.Context, c console, client *control.Client, after time.Duration) (stop func()) {
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
		for r, err := range control.Messages(client.WatchStatus(watch, &controlpb.WatchStatusRequest{})) {
			if err != nil {
				break // without it the command still does what it should
			}
			steps.show(r.Status)
		}
		if undone && terminalWidth(c.err) > 0 { // it is on the line still
			fmt.Fprint(c.err, clearLine)
		}
	}()
	return func() {
		cancel()
		<-shown
	}
}

// steps shows a journey.
type steps struct {
	report progress.Func
	shown  map[string]bool // what was shown, or was over before; nil before the first status
}

func newSteps(report progress.Func) *steps { return &steps{report: report} }

// show shows what is new of a journey.
func (s *steps) show(status *controlpb.Status) {
	j := status.GetJourney()
	report := s.report
	if s.shown == nil {
		s.shown = map[string]bool{}
		if status.GetOperation() == "" || !underWay(j) {
			report = func(progress.Event) {} // it is an old one
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

// underWay reports whether a journey has steps before it.
func underWay(j *controlpb.Journey) bool {
	return slices.ContainsFunc(j.GetSteps(), func(s *controlpb.Step) bool { return s.Status == "pending" || s.Status == "in_progress" })
}

// stepName is a step for people.
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
