package diff

import "strings"

// Merge brings the changes of two texts since their common base together. It reports
// false where both changed the same lines, or lines beside each other, differently.
func Merge(base, ours, theirs string) (string, bool) {
	texts := [2][]string{lines(ours), lines(theirs)}
	origin := lines(base)
	rest := [2][]change{changes(origin, texts[0]), changes(origin, texts[1])}
	var out strings.Builder
	at := 0
	for len(rest[0])+len(rest[1]) > 0 {
		from := len(origin)
		for _, list := range rest {
			if len(list) > 0 {
				from = min(from, list[0].a0)
			}
		}
		to := from
		taken := [2][]change{}
		for grown := true; grown; { // by changes that touch it
			grown = false
			for side := range rest {
				for len(rest[side]) > 0 && rest[side][0].a0 <= to {
					to, grown = max(to, rest[side][0].a1), true
					taken[side] = append(taken[side], rest[side][0])
					rest[side] = rest[side][1:]
				}
			}
		}
		write(&out, "", origin[at:from])
		parts := [2]string{}
		for side := range parts {
			parts[side] = apply(origin, texts[side], taken[side], from, to)
		}
		switch {
		case len(taken[1]) == 0 || parts[0] == parts[1]:
			out.WriteString(parts[0])
		case len(taken[0]) == 0:
			out.WriteString(parts[1])
		default:
			return "", false
		}
		at = to
	}
	write(&out, "", origin[at:])
	return out.String(), true
}

// apply returns lines from to to of the base as one side has them.
func apply(base, side []string, list []change, from, to int) string {
	var out strings.Builder
	for _, c := range list {
		write(&out, "", base[from:c.a0])
		write(&out, "", side[c.b0:c.b1])
		from = c.a1
	}
	write(&out, "", base[from:to])
	return out.String()
}
