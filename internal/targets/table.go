package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// figures are what was measured, by benchmark and unit.
type figures map[string]map[string]float64

// read takes the lines of benchmarks out of go test's output.
func read(in io.Reader) (figures, error) {
	all := make(figures)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		name, units := parse(lines.Text())
		if name != "" {
			all[name] = units
		}
	}
	return all, lines.Err()
}

// parse reads one line of go test: a name that ends with the number of processors, the
// number of turns, and pairs of a figure and its unit. The name is empty if it is another line.
func parse(line string) (name string, units map[string]float64) {
	fields := strings.Fields(line)
	if len(fields) < 4 || len(fields)%2 != 0 {
		return "", nil
	}
	name, isBenchmark := strings.CutPrefix(fields[0], "Benchmark")
	if !isBenchmark {
		return "", nil
	}
	if cut := strings.LastIndexByte(name, '-'); cut > 0 {
		if _, err := strconv.Atoi(name[cut+1:]); err == nil {
			name = name[:cut]
		}
	}
	units = make(map[string]float64)
	for i := 2; i < len(fields); i += 2 {
		figure, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return "", nil
		}
		units[fields[i+1]] = figure
	}
	return name, units
}

// of is the figure of a target, and the name under which it was measured.
func (f figures) of(t target) (figure float64, name string) {
	for name, units := range f {
		if name == t.benchmark || strings.HasPrefix(name, t.benchmark+"/") {
			if figure, is := units[t.unit]; is {
				return figure, name
			}
		}
	}
	return 0, ""
}

// table prints the targets with their figures, in Markdown, and returns how many have none.
func table(out io.Writer, targets []target, measured figures) (missing int) {
	fmt.Fprintln(out, "| | measured | target | |\n| --- | --- | --- | --- |")
	for _, t := range targets {
		figure, name := measured.of(t)
		if name == "" {
			missing++
			fmt.Fprintf(out, "| %s %s | | %s %.3g | not measured |\n", t.benchmark, t.unit, t.bound, t.limit)
			continue
		}
		verdict := "**not met**"
		if t.met(figure) {
			verdict = "met"
		}
		fmt.Fprintf(out, "| %s %s | %.3g | %s %.3g | %s |\n", name, t.unit, figure, t.bound, t.limit, verdict)
	}
	return missing
}
