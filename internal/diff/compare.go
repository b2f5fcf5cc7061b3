package diff

import "slices"

// maxEdits bounds the work and memory (8 MiB). Beyond it, everything is shown as changed.
const maxEdits = 1500

// change replaces lines a0 to a1 of one text by lines b0 to b1 of another.
type change struct{ a0, a1, b0, b1 int }

// changes returns the changes that turn a into b, by position. Between two of them is
// at least one equal line.
func changes(a, b []string) []change {
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	a, b = a[head:len(a)-tail], b[head:len(b)-tail]
	if len(a)+len(b) == 0 {
		return nil
	}
	var list []change
	x, y := 0, 0
	for _, same := range append(matches(a, b), [2]int{len(a), len(b)}) {
		if same[0] > x || same[1] > y {
			list = append(list, change{head + x, head + same[0], head + y, head + same[1]})
		}
		x, y = same[0]+1, same[1]+1
	}
	return list
}

// matches returns the pairs of equal lines on a shortest path from a to b (Myers 1986),
// or none if it is too long.
func matches(a, b []string) [][2]int {
	limit := min(len(a)+len(b), maxEdits)
	reach := make([]int32, 2*limit+3) // by diagonal x-y: the furthest x
	middle := limit + 1
	var trace [][]int32 // what was reached before each edit
	for d := 0; d <= limit; d++ {
		trace = append(trace, slices.Clone(reach[middle-d-1:middle+d+2]))
		for k := -d; k <= d; k += 2 {
			at := reach[middle+k-1 : middle+k+2]
			x := int(at[2])
			if right(at[0], at[2], k, d) {
				x = int(at[0]) + 1
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			if at[1] = int32(x); x >= len(a) && x-k >= len(b) { //nolint:gosec // at most the number of lines
				return path(trace, len(a), len(b))
			}
		}
	}
	return nil
}

// right reports whether the path comes to diagonal k by removing a line of a.
func right(left, above int32, k, d int) bool { return k != -d && (k == d || left >= above) }

// path walks back from the ends of both texts.
func path(trace [][]int32, x, y int) [][2]int {
	var pairs [][2]int
	for d := len(trace) - 1; d >= 0; d-- {
		before, k := trace[d], x-y
		fromX, fromK := 0, 0
		if d > 0 {
			fromK = k + 1
			if right(before[d+k], before[d+k+2], k, d) {
				fromK = k - 1
			}
			fromX = int(before[d+fromK+1])
		}
		for x > fromX && y > fromX-fromK {
			x, y = x-1, y-1
			pairs = append(pairs, [2]int{x, y})
		}
		x, y = fromX, fromX-fromK
	}
	slices.Reverse(pairs)
	return pairs
}
